"""`data show`: images and their augmentations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.init_predict import check_folder
from trainwright.core.formatting import many
from trainwright.core.optional_dependencies import need_torch


def show_images(
    contract: Path, overrides: Sequence[str], output: Path, images: int, epochs: int
) -> None:
    """Write the contact sheet."""
    need_torch("", "the augmentation of images")
    from trainwright.run.contact_sheet import write_contact_sheet

    check_folder(output)
    lines = write_contact_sheet(contract, overrides, output, images, epochs)
    sys.stdout.write(
        f"{many(lines, 'image')}, each beside {many(epochs, 'epoch')} of it, in {output}\n"
    )
