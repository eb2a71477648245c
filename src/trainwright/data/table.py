"""Encoded rows: what a model eats, and the parts of the data that were divided for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, assert_never

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
PartName = Literal["train", "validation", "test"]


@dataclass(frozen=True, slots=True)
class TableInputs:
    """Encoded feature columns of N rows.

    `numeric` is float32 [N, F] (NaN only where the plan imputes nothing); `categories` is int64
    [N, G], each entry a code below the column's cardinality.
    """

    numeric: npt.NDArray[np.float32]
    categories: Integers

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: Integers) -> TableInputs:
        """The given rows, in the given order."""
        return TableInputs(self.numeric[rows], self.categories[rows])


@dataclass(frozen=True, slots=True)
class ImageInputs:
    """N images as they are in their file: uint8 [N, C, H, W], 0 black."""

    pixels: Bytes

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, rows: Integers) -> ImageInputs:
        """The given images, in the given order."""
        return ImageInputs(self.pixels[rows])


@dataclass(frozen=True, slots=True)
class TokenInputs:
    """N stretches of one sequence of tokens, uint16 [T], which may be mapped from a file.

    Stretch i is the `lengths[i]` tokens that are predicted from position `starts[i]` on, each from
    the tokens before it, but none before the last of `documents` (the positions where these begin,
    0 first) that is not behind it.
    """

    tokens: npt.NDArray[np.uint16]
    starts: Integers
    lengths: Integers
    documents: Integers = field(default_factory=lambda: np.zeros(1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.starts)

    def document_starts(self) -> tuple[Integers, int]:
        """Where the documents of these stretches begin, and where the last one that predicts a
        token ends."""
        first = int(np.searchsorted(self.documents, self.starts[0], side="right")) - 1
        end = int(self.starts[-1] + self.lengths[-1])
        starts = self.documents[first:]
        return starts[starts < end], end

    def document_lengths(self) -> Integers:
        """The tokens of each of these documents."""
        starts, end = self.document_starts()
        return np.diff(np.append(starts, end))

    def take(self, rows: Integers) -> TokenInputs:
        """The given stretches, in the given order."""
        return TokenInputs(self.tokens, self.starts[rows], self.lengths[rows], self.documents)


Inputs = TableInputs | ImageInputs | TokenInputs
"""What a model eats, of each kind of data."""


def columns_of(inputs: Inputs) -> TableInputs:
    """The inputs as columns, for models that know nothing else: an image is its pixels from 0 to 1,
    row by row. A text has no columns."""
    match inputs:
        case TableInputs():
            return inputs
        case ImageInputs(pixels=pixels):
            flat = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
            return TableInputs(flat, np.empty((len(pixels), 0), dtype=np.int64))
        case TokenInputs():
            raise AssertionError("the rules refuse a model of columns for a text")
        case _:
            assert_never(inputs)


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that were given one purpose.

    `frame` holds the typed columns before encoding (for slices and for people), `target` int64
    class codes [N] or float64 values [N] (of a text the number of tokens of each stretch), `rows`
    the 0-based positions in the source file, `units` int64 [N] the number of the independent unit
    each row belongs to (its group under a group split, a stretch of time under a time split, else
    itself): the bootstrap draws units.
    """

    name: PartName
    frame: pl.DataFrame
    inputs: Inputs
    target: npt.NDArray[Any]
    rows: Integers
    units: Integers

    def __len__(self) -> int:
        return len(self.rows)
