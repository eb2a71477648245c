"""What the words of `generate` ask for, and what contradicts them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, final

from trainwright.cli.init_predict import check_folder
from trainwright.core.errors import Mistake, Problem

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
