"""`generate` with a model that writes of images."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trainwright.cli.output.render import show_json
from trainwright.core.files import write_text
from trainwright.core.terminal import show_safely
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.predictor.text_generation import Continuation, DecodingOptions
    from trainwright.run.after.caption_images import AskedImage


class ImagesAsked(NamedTuple):
    """An image or many, what is asked of them, and where texts go; without a file to the screen."""

    data: Path
    are_many: bool
    question: str
    output: Path
    writes_file: bool

    @staticmethod
    def of(prompt: str, prompts: Path, question: str, output: Path, none: Path) -> ImagesAsked:
        """What the words of the command say; `none` is the path that stands for none."""
        many = prompts != none
        data = prompts if many else Path(prompt)
        return ImagesAsked(data, many, question, output, output != none)


def generate_captions(
    folder: RunFolder, asked: ImagesAsked, decoding: DecodingOptions, *, as_json: bool
) -> None:
    """Write a caption of an image, or of each image of a file or a folder."""
    # Imported here: it needs torch.
    from trainwright.run.after.caption_images import open_captions, read_asked_images

    captions = open_captions(folder, decoding)
    lines = []
    for row, image in enumerate(read_asked_images(captions, asked.data, asked.question)):
        found = captions.writer.write(image.pixels, image.question, row)
        told = _describe(image, found)
        if not asked.are_many:
            show_json(told) if as_json else sys.stdout.write(show_safely(found.text) + "\n")
            continue
        lines.append(json.dumps(told, ensure_ascii=not asked.writes_file))
        if not asked.writes_file:
            sys.stdout.write(lines[-1] + "\n")
    if asked.writes_file:
        write_text(asked.output, "".join(line + "\n" for line in lines))
        sys.stdout.write(show_safely(f"{len(lines):,} texts in {asked.output}\n"))


def _describe(image: AskedImage, found: Continuation) -> dict[str, object]:
    """A text with its image, as JSON."""
    return {
        "image": image.name,
        **({"question": image.question} if image.question else {}),
        "text": found.text,
        "tokens": found.tokens,
        "ended_by": found.ended_by,
    }
