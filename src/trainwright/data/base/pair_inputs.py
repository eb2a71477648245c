"""Pairs as inputs: images with texts, queries with passages, images with captions, and one side
alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.counter_rng import Permutation
from trainwright.data.base.inputs import ImageInputs, Inputs, Integers, TableInputs
from trainwright.data.base.levels import Levels
from trainwright.data.base.token_inputs import TextInputs, TokenInputs

Side = Literal["images", "texts", "queries", "passages"]

WantedSide = Literal[Side, "given", "found"]
"""A side; or the one that a file has, and where it has both, what is asked (`given`) or what is
found (`found`)."""

OTHER_IMAGES: Final = "other_images"
"""The model that sees, with each caption, the image of another one."""

_SEED = 0


@dataclass(frozen=True, slots=True)
class PairInputs(Inputs):
    """N images, and the caption of each."""

    images: ImageInputs
    texts: TextInputs

    kind: ClassVar[str] = "pairs"
    noun: ClassVar[str] = "pairs"
    rows_at_once: ClassVar[int] = 256

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Integers) -> PairInputs:
        """The given pairs, in the given order."""
        return PairInputs(self.images.take(rows), self.texts.take(rows))

    def pictures(self) -> ImageInputs:
        """`images`."""
        return self.images

    def columns(self) -> TableInputs:
        """Captions are no columns: the linear baseline encodes the pairs itself."""
        raise AssertionError("the rules refuse a model of columns for pairs")

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Pixels, and the tokens of the captions."""
        return {**self.images.arrays(start, stop), **self.texts.arrays(start, stop)}

    def scoring_order(self) -> Integers:
        """Their own."""
        return np.zeros(0, dtype=np.int64)


@final
class OneSide(NamedTuple):
    """N images or texts: which they are and what they are compared with, their inputs, what each is
    called [N], and the columns beside them, none where they stand in no table."""

    side: Side
    other: Side
    inputs: Inputs
    names: pl.Series
    frame: pl.DataFrame


@dataclass(frozen=True, slots=True)
class TextPairInputs(Inputs):
    """N queries, the passage of each, and K hard negatives of each, which only a training reads."""

    queries: TextInputs
    passages: TextInputs
    negatives: tuple[TextInputs, ...] = ()

    kind: ClassVar[str] = "text_pairs"
    noun: ClassVar[str] = "pairs"
    rows_at_once: ClassVar[int] = 128

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: Integers) -> TextPairInputs:
        """The given pairs, in the given order."""
        return TextPairInputs(
            self.queries.take(rows),
            self.passages.take(rows),
            tuple(one.take(rows) for one in self.negatives),
        )

    def columns(self) -> TableInputs:
        """Texts are no columns: the linear baseline encodes the pairs itself."""
        raise AssertionError("the rules refuse a model of columns for pairs")

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """The tokens of queries and passages."""
        return {
            **_named("query", self.queries.arrays(start, stop)),
            **_named("passage", self.passages.arrays(start, stop)),
        }

    def scoring_order(self) -> Integers:
        """By length, so that little is padded."""
        return np.argsort(self.queries.lengths + self.passages.lengths, kind="stable")


def _named(side: str, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {f"{side}_ids": arrays["input_ids"], f"{side}_mask": arrays["attention_mask"]}


@dataclass(frozen=True, slots=True)
class CaptionInputs(Inputs):
    """N images, and the caption of each as a segment, before which its question and its prompt
    stand."""

    images: ImageInputs
    texts: TokenInputs

    kind: ClassVar[str] = "captions"
    noun: ClassVar[str] = "captions"

    def __len__(self) -> int:
        return len(self.images)

    def take(self, rows: Integers) -> CaptionInputs:
        """The given captions with their images, in the given order."""
        return CaptionInputs(self.images.take(rows), self.texts.take(rows))

    def pictures(self) -> ImageInputs:
        """`images`."""
        return self.images

    @property
    def segments(self) -> TokenInputs:
        """The captions."""
        return self.texts

    @property
    def levels(self) -> Levels:
        """Bytes of the captions."""
        return self.texts.levels

    def beside_segments(self, segments: Integers, /) -> Mapping[str, npt.NDArray[Any]]:
        """The image of each."""
        return self.images.take(segments).arrays(0, len(segments))

    def counterfactuals(self) -> Mapping[str, CaptionInputs]:
        """Each caption with the image of another one."""
        return {OTHER_IMAGES: CaptionInputs(self.images.take(self.other_images()), self.texts)}

    def other_images(self) -> Integers:
        """For each row another one, int64 [N], a permutation of the rows: rows of equal images are
        moved on together in a random order, so that none gets an equal one back, unless more than
        half of all are equal."""
        hashes = self.images.hashes()
        drawn = Permutation(len(hashes), _SEED).of(0, np.arange(len(hashes)))
        place = {hashes[row]: at for at, row in enumerate(drawn.tolist())}
        codes = np.array([place[one] for one in hashes], dtype=np.int64)
        order = np.argsort(codes, kind="stable")
        most = int(np.bincount(codes, minlength=1).max())
        found = np.empty_like(order)
        found[order] = np.roll(order, -most)
        return found

    def columns(self) -> TableInputs:
        """Captions are no columns: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for captions")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Captions are scored by their segments."""
        raise AssertionError("captions are scored by their segments")
