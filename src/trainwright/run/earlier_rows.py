"""Rows that an earlier run, which a model starts from, was trained on."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import many
from trainwright.data.types import Prepared
from trainwright.run.folder.trained_rows import trained_mask
from trainwright.tracking.run_folder import RunFolder, is_run_folder


def check_unseen_rows(model: ModelSection, prepared: Prepared) -> None:
    """Refuse to judge a model on rows that the run which it starts from was trained on, as far as
    that run knows its rows: those with images know them by their pixels, decoded alike.

    Raises:
        Mistake: a validation or test row is one of them.
    """
    place = Path(model.earlier_bundle).parent
    if not is_run_folder(place):
        return
    for part in (prepared.validation, prepared.test):
        seen = trained_mask(part, prepared.features, RunFolder(place))
        if seen is not None and seen.any():
            noun = f"{part.name} {part.inputs.noun}"
            raise Mistake(
                Problem(
                    f"the earlier run was trained on images of the {part.name} part",
                    path="data",
                    found=f"{many(int(seen.sum()), 'image')} of {len(part):,} {noun}",
                    expected="parts that are divided as those of the earlier run",
                    fix="divide the rows as that run does, or give each part a file of its own",
                )
            )
