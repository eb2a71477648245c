"""Model card of a run folder."""

from __future__ import annotations

from pathlib import Path

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import read_json, write_text
from trainwright.predictor.bundle import MANIFEST
from trainwright.report.card.model_card import CardSource, render_card
from trainwright.report.load_run import read_contents
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.tracking.run_folder import RunFolder

CARD = "model_card.md"
"""Its name in the folder of a run for production."""


def make_card(folder: RunFolder) -> str:
    """The card of a judged run.

    Raises:
        Mistake: it has no verdict, or a file of it cannot be read.
    """
    read_judged(folder)
    contents = read_contents(folder)
    if contents.damaged:
        raise Mistake(
            Problem(f"{name} of run {folder.name} cannot be read", found=why)
            for name, why in contents.damaged
        )
    manifest = folder.bundle / MANIFEST
    return render_card(CardSource(contents, read_json(manifest) if manifest.exists() else {}))


def write_card(folder: RunFolder, output: Path) -> Path:
    """Write the card of a judged run, and return where.

    Raises:
        Mistake: as `make_card`. StorageFailed: the disk.
    """
    write_text(output, make_card(folder))
    return output
