"""`generate` with a model that writes of images."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.cli.output.render import show_json
from trainwright.core.files import write_text
from trainwright.core.terminal import show_safely
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.cli.texts.asked_texts import AskedTexts
    from trainwright.predictor.text_generation import Continuation, DecodingOptions
    from trainwright.run.after.caption_images import AskedImage


def generate_captions(folder: RunFolder, asked: AskedTexts, decoding: DecodingOptions) -> None:
    """Write a caption of an image, or of each image of a file or a folder."""
    # Imported here: it needs torch.
    from trainwright.run.after.caption_images import open_captions, read_asked_images

    captions = open_captions(folder, decoding)
    lines, data = [], asked.prompts if asked.are_many else Path(asked.prompt)
    for row, image in enumerate(read_asked_images(captions, data, asked.question)):
        found = captions.writer.write(image.pixels, image.question, row)
        told = _describe(image, found)
        if not asked.are_many:
            show_json(told) if asked.as_json else sys.stdout.write(show_safely(found.text) + "\n")
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
