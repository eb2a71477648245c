"""Images as pixels, and their captions as tokens to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, NotAvailable, Problem
from trainwright.core.files import Json, hash_value
from trainwright.core.formatting import many
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import ImageInputs, Inputs, Integers, Part
from trainwright.data.base.messages import some
from trainwright.data.base.pair_inputs import CaptionInputs
from trainwright.data.base.token_inputs import TokenInputs, Tokens
from trainwright.data.encoders.encoding import InputColumn, NewRows
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.encoders.vocabulary import TextVocabulary, TokenEncoding


@final
@dataclass(frozen=True, slots=True)
class CaptionText:
    """How a row becomes a text: question, prompt, caption, end. `caption` and `question` are
    columns; without a question the latter is empty."""

    words: TextVocabulary
    prompt: str
    end: str
    caption: str
    question: str

    def ask(self, question: str) -> Tokens:
        """The tokens before a caption, of which there is at least one."""
        return self.words.encode(question + self.prompt)

    def questions(self, frame: pl.DataFrame) -> list[str]:
        """What is asked of each row; a missing question is empty."""
        if not self.question:
            return [""] * frame.height
        return frame[self.question].cast(pl.String).fill_null("").to_list()

    def encode(self, frame: pl.DataFrame) -> TokenInputs:
        """Each row as a document, whose caption is its segment.

        Raises:
            DataMistake: nothing stands before a caption, or behind it.
        """
        asked = [one + self.prompt for one in self.questions(frame)]
        captions = frame[self.caption].to_list()
        each = [text for row in zip(asked, captions, strict=True) for text in (*row, self.end)]
        pieces = self.words.encode_each(each)
        lengths = np.array([len(piece) for piece in pieces], dtype=np.int64).reshape(-1, 3)
        if not (lengths[:, 0] > 0).all():
            raise DataMistake(_nothing_before(np.flatnonzero(lengths[:, 0] == 0)))
        if not lengths[:, 2].all():
            raise DataMistake(_nothing_behind(self.end))
        sizes = lengths.sum(axis=1)
        begins = np.cumsum(sizes) - sizes
        mask = np.repeat(np.tile([False, True, True], len(sizes)), lengths.ravel())
        return TokenInputs(
            np.concatenate(pieces),
            begins + lengths[:, 0],
            sizes - lengths[:, 0],
            begins,
            mask=mask,
            byte_counts=self.words.byte_counts(),
        )

    @property
    def identity(self) -> str:
        """SHA-256 of what decides every token."""
        return hash_value([self.words.to_json(), self.prompt, self.end])

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "words": self.words.to_json(),
            "prompt": self.prompt,
            "end": self.end,
            "caption": self.caption,
            "question": self.question,
        }

    @staticmethod
    def from_json(json: Json) -> CaptionText:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        words = TextVocabulary.from_json(json["words"])
        told = [json[key] for key in ("prompt", "end", "caption", "question")]
        if not all(isinstance(one, str) for one in told):
            raise ValueError("features.json names no columns of captions")
        return CaptionText(words, *told)


def _nothing_before(rows: Integers) -> Problem:
    return Problem(
        f"nothing stands before {many(len(rows), 'caption')}",
        path="data.prompt",
        found=f"an empty question in row {some((rows + 1).tolist())}",
        expected="at least one token between an image and its caption",
        fix="remove data.prompt, or ask something in every row",
    )


def _nothing_behind(end: str) -> Problem:
    return Problem(
        "the tokenizer has no token for what stands behind a caption",
        path="data.end",
        found=repr(end),
        expected="a text that has a token, such as the mark that ends a text of the decoder",
        fix="choose a text that the tokenizer knows",
    )


@final
@dataclass(frozen=True, slots=True)
class CaptionEncoding(TokenEncoding):
    """Statistics of the training images, and how a row becomes a text."""

    pixels: Pixels
    text: CaptionText

    modality: ClassVar[str] = "captions"
    knows_images: ClassVar[bool] = True
    profiled_rows: ClassVar[int] = 1000

    @property
    def vocabulary(self) -> TextVocabulary:
        """What a token is."""
        return self.text.words

    @property
    def turn_end(self) -> str:
        """What ends a caption."""
        return self.text.end

    def read_new(self, _rows: NewRows, /) -> Inputs:
        """Refused, as `not_predicted` says."""
        raise self.not_predicted()

    def not_predicted(self) -> NotAvailable:
        """Captions are written by another command."""
        return NotAvailable(
            Problem(
                "captions are written, not predicted",
                found="rows to predict",
                fix="trainwright generate RUN IMAGE, or with --from TABLE for many",
            )
        )

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Brightness and contrast of the images, and lengths of the captions."""
        inputs = CaptionInputs.of_kind(part.inputs)
        images = Part(part.name, part.frame, inputs.images, part.target, part.rows, part.units)
        lengths = safe_quantiles(inputs.texts.lengths.astype(np.float64))
        return {**self.pixels.profile(images), "caption_tokens": lengths}

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """Images of one size, and what is asked of them."""
        asked = [InputColumn(self.text.question, "text")] if self.text.question else []
        return [*self.pixels.signature(profile), *asked]

    def trial_inputs(self) -> list[Inputs]:
        """A black image with the last token, twice."""
        (text,) = self.vocabulary.trial_inputs()
        return [
            CaptionInputs(ImageInputs.of_kind(images), TokenInputs.of_kind(text))
            for images in self.pixels.trial_inputs()
        ]

    def shape_json(self, outputs: int) -> Json:
        """That of the images, with an output for each token."""
        return {**self.pixels.shape_json(outputs), "kind": self.modality}

    def describe(self, rows: int) -> str:
        """Their number, the size of the images, and the vocabulary."""
        words = f"{self.tokens:,} different {self.vocabulary.kind}"
        return f"{self.pixels.describe(rows)} with captions of {words}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": self.modality,
            "pixels": self.pixels.to_json(),
            "text": self.text.to_json(),
        }

    @classmethod
    def from_json(cls, json: Json) -> CaptionEncoding:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        return cls(Pixels.from_json(json["pixels"]), CaptionText.from_json(json["text"]))
