"""What `generate` asks for: of one run, of several adapters, of images."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from trainwright.cli.init_predict import check_folder
from trainwright.cli.render import show_json
from trainwright.cli.texts.show_questions import describe_text, tell_doubts
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import write_text
from trainwright.core.formatting import show_safely
from trainwright.tracking.run_folder import RunFolder

if TYPE_CHECKING:
    from trainwright.predictor.text_generation import Continuation, DecodingOptions
    from trainwright.run.after.caption_images import AskedImage

NO_FILE: Final = Path("-")


@final
class AskedTexts(NamedTuple):
    """A prompt or the path of an image, or a file of many; who writes, and where to."""

    prompt: str
    prompts: Path
    output: Path
    question: str
    is_chat: bool
    beside: tuple[str, ...]
    with_base: bool
    as_json: bool

    @property
    def are_many(self) -> bool:
        """Is there a file of prompts?"""
        return self.prompts != NO_FILE

    @property
    def writes_file(self) -> bool:
        """Do the texts go into a file?"""
        return self.output != NO_FILE

    @property
    def is_comparison(self) -> bool:
        """Do several models write?"""
        return bool(self.beside) or self.with_base

    def check(self) -> None:
        """What contradicts itself in any model.

        Raises:
            Mistake: neither or both of a prompt and a file; a file of texts of one prompt; adapters
                that write beside each other of many.
        """
        if bool(self.prompt) == self.are_many:
            raise Mistake(
                Problem(
                    "one prompt is needed, or a file of prompts",
                    found="both" if self.prompt else "neither",
                    fix='trainwright generate RUN "Once upon a time"',
                )
            )
        if self.writes_file:
            self._check_output()
        if self.is_comparison and self.are_many:
            raise Mistake(
                Problem(
                    "adapters write beside each other for one prompt at a time",
                    path="--from",
                    found=str(self.prompts),
                    expected="a prompt in its place",
                    fix="leave out --from, or --beside and --with-base",
                )
            )

    def _check_output(self) -> None:
        if not self.are_many or self.output.suffix != ".jsonl":
            raise Mistake(
                Problem(
                    "the texts of a file of prompts are written as .jsonl",
                    path="-o",
                    found=str(self.output),
                    expected="--from FILE beside it, and a name that ends in .jsonl",
                    fix="trainwright generate RUN --from PROMPTS.txt -o TEXTS.jsonl",
                )
            )
        check_folder(self.output)

    def check_images(self) -> None:
        """What a model that writes of images does not do.

        Raises:
            Mistake: a turn of a chat, or adapters beside each other.
        """
        if self.is_chat:
            raise Mistake(
                Problem(
                    "the model of this run writes of images, not in turns",
                    path="--chat",
                    fix="leave out --chat, and ask by --question",
                )
            )
        if self.is_comparison:
            raise Mistake(
                Problem(
                    "models that write of images do not write beside each other",
                    path="--beside" if self.beside else "--with-base",
                    fix="leave it out, and write of the image with each run",
                )
            )

    def check_texts(self) -> None:
        """What a model of texts alone does not do.

        Raises:
            Mistake: a question about an image.
        """
        if self.question:
            raise Mistake(
                Problem(
                    "the model of this run reads no images that something could be asked of",
                    path="--question",
                    found=self.question[:80],
                    expected="a run of kind vision_language",
                    fix="leave out --question, and write it as the prompt",
                )
            )


def generate_beside(
    folders: Sequence[RunFolder], asked: AskedTexts, decoding: DecodingOptions
) -> None:
    """Continue a prompt with each adapter, below the name of its run, and with the base."""
    # Imported here: it needs torch.
    from trainwright.run.after.generate_text import open_generators

    texts = []
    found = open_generators(folders, decoding, is_chat=asked.is_chat, with_base=asked.with_base)
    for name, generator, reader in found:
        prompt = reader.read(asked.prompt)
        said = generator.generate(prompt.pieces)
        texts.append({"run": name, **describe_text(prompt, said)})
        if not asked.as_json:
            sys.stdout.write(f"== {show_safely(name)}\n{show_safely(said.text)}\n")
        tell_doubts(said, f"the prompt by {name}")
    if asked.as_json:
        show_json(texts)


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
