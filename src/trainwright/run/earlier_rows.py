"""Rows that an earlier run, which a model starts from, was trained on."""

from __future__ import annotations

from pathlib import Path

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Part
from trainwright.data.types import Prepared
from trainwright.run.folder.model_files import trained_mask
from trainwright.tracking.run_folder import RunFolder, is_run_folder


def check_unseen_rows(model: ModelSection, prepared: Prepared) -> list[str]:
    """Refuse to judge a model on rows that the run which it starts from was trained on, as far as
    that run knows its rows: those with images know them by their pixels, decoded alike. Otherwise
    a note that nothing could be checked.

    Raises:
        Mistake: a validation or test row is one of them.
    """
    bundle = Path(model.earlier_bundle)
    for part in (prepared.validation, prepared.test):
        folder = bundle.parent
        seen = None
        if is_run_folder(folder):
            seen = trained_mask(part, prepared.features, RunFolder(folder))
        if seen is None:
            return [
                f"{bundle} does not know its training rows: whether validation or test rows are "
                "among them was not checked"
            ]
        if seen.any():
            raise _trained_on(part, int(seen.sum()))
    return []


def _trained_on(part: Part, rows: int) -> Mistake:
    return Mistake(
        Problem(
            f"the earlier run was trained on images of the {part.name} part",
            path="data",
            found=f"{many(rows, 'image')} of {len(part):,} {part.name} {part.inputs.noun}",
            expected="parts that are divided as those of the earlier run",
            fix="divide the rows as that run does, or give each part a file of its own",
        )
    )
