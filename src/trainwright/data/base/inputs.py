"""Encoded rows: what a model eats, and the parts of the data that were divided."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.levels import NO_LEVELS, Levels

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bytes = npt.NDArray[np.uint8]
PartName = Literal["train", "validation", "test"]
_BLOCK_BYTES = 16 * 2**20

NO_WEIGHTS: Floats = np.empty(0)
"""Weights of rows that all count alike."""

NO_SOFT_TARGETS: Floats = np.empty((0, 0))
"""Those of rows without a teacher."""

NO_STATES: npt.NDArray[np.float32] = np.empty((0, 0), np.float32)
"""Hidden states of rows without a teacher that shows them."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class SparseColumns:
    """N rows of `width` columns in compressed sparse row format: row i has the `values` float32
    from `ends[i]` to `ends[i + 1]`, in the `columns` of the same range."""

    values: npt.NDArray[np.float32]
    columns: Integers
    ends: Integers
    width: int

    @classmethod
    def empty(cls, rows: int) -> SparseColumns:
        """No column at all."""
        nowhere = np.zeros(0, np.int64)
        return cls(np.zeros(0, np.float32), nowhere, np.zeros(rows + 1, np.int64), 0)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def take(self, rows: Integers | slice) -> SparseColumns:
        """The given rows, in the given order."""
        return sparse_of(self.matrix()[rows])

    def dense(self) -> npt.NDArray[np.float32]:
        """[N, width]."""
        return np.asarray(self.matrix().toarray())

    def deviations(self) -> npt.NDArray[np.float64]:
        """The standard deviation of each column, zeros included, [width]."""
        values = self.values.astype(np.float64)
        sums = np.bincount(self.columns, values, minlength=self.width)
        squares = np.bincount(self.columns, values**2, minlength=self.width)
        rows = max(1, len(self))
        return np.asarray(np.sqrt(np.maximum(squares / rows - (sums / rows) ** 2, 0)))

    def matrix(self) -> Any:
        """The same as scipy's csr_array, which libraries of models read."""
        from scipy.sparse import csr_array

        return csr_array((self.values, self.columns, self.ends), shape=(len(self), self.width))


NO_TERMS = SparseColumns.empty(0)
"""Of rows without texts, however many."""


def sparse_of(matrix: Any) -> SparseColumns:
    """The columns of scipy's matrix in compressed sparse row format."""
    values, columns = matrix.data.astype(np.float32), matrix.indices.astype(np.int64)
    return SparseColumns(values, columns, matrix.indptr.astype(np.int64), matrix.shape[1])


def beside(blocks: Sequence[SparseColumns]) -> SparseColumns:
    """Columns of the same rows, from left to right."""
    if len(blocks) < 2:
        return blocks[0] if blocks else NO_TERMS
    from scipy.sparse import hstack

    return sparse_of(hstack([one.matrix() for one in blocks], format="csr"))


def below(blocks: Sequence[SparseColumns]) -> SparseColumns:
    """Rows of the same columns, one block after the other."""
    if not blocks or not blocks[0].width:
        return NO_TERMS
    from scipy.sparse import vstack

    return sparse_of(vstack([one.matrix() for one in blocks], format="csr"))


class Inputs(ABC):
    """Encoded rows: what a model reads. Several kinds of data may share a kind of inputs."""

    __slots__ = ()

    kind: ClassVar[str]
    """`table`, `images`, `tokens`, `pairs` or `captions`, as the `form` of a data section; or
    `texts`, the tokens of a column of texts."""

    rows_at_once: ClassVar[int] = 8192
    """Rows that a network scores in one pass, at most."""

    noun: ClassVar[str] = "rows"
    """What they are called in messages."""

    are_samples: ClassVar[bool] = True
    """Is each of them a sample of an epoch, rather than a window over several?"""

    second_pass: ClassVar[bool] = False
    """Are they read again for the loss of a validation, rather than take it from the scores?"""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def take(self, rows: Integers) -> Inputs:
        """The given rows, in the given order."""

    @abstractmethod
    def columns(self) -> TableInputs:
        """The same rows as columns, for models of tables."""

    @abstractmethod
    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """The rows from `start` to `stop` as the arguments of a network, in its order: arrays in
        memory, the first axis the rows."""

    def pictures(self) -> ImageInputs:
        """The images among them; other rows have none."""
        raise AssertionError(f"{self.kind} have no images")

    def document_sizes(self) -> Floats:
        """Tokens of each document [D]; empty without documents."""
        return np.zeros(0)

    def scoring_order(self) -> Integers:
        """The order in which a network scores the rows, int64 [N]; empty for their own."""
        return np.zeros(0, dtype=np.int64)

    @property
    def segments(self) -> Inputs:
        """What a decoder scores."""
        raise AssertionError("only texts have segments")

    def from_likelihoods(self, nll: Floats, /) -> Floats:
        """Scores [N, 1] of the negative log-likelihoods of the segments [M, 1]."""
        return nll

    def beside_segments(self, _segments: Integers, /) -> Mapping[str, npt.NDArray[Any]]:
        """What a decoder reads beside the tokens of these segments, in the order of its arguments,
        the first axis the segments."""
        return {}

    def counterfactuals(self) -> Mapping[str, Inputs]:
        """The same rows with something taken from them that a model should use, by the name of the
        baseline that the model itself becomes."""
        return {}

    @property
    def levels(self) -> Levels:
        """What the values of the rows are measured against."""
        return NO_LEVELS

    def rows_of_sources(self) -> Mapping[str, Integers]:
        """Rows of each source that has a name."""
        return {}

    @classmethod
    def of_kind(cls, inputs: Inputs) -> Self:
        """The same inputs where their kind is settled; another one is a programmer's mistake."""
        assert isinstance(inputs, cls), f"{inputs.kind} are no {cls.kind}"
        return inputs


@dataclass(frozen=True, slots=True)
class TableInputs(Inputs):
    """Encoded feature columns of N rows.

    `numeric` is float32 [N, F] (NaN only where the plan imputes nothing); `categories` is int64
    [N, G], each entry a code below the column's cardinality. `in_files`: both are mapped from
    files and may be larger than memory; code that needs rows in memory copies some. `terms` [N, T]
    are the weights of the terms of texts, which follow the numbers. `row_levels` are the `levels`.
    """

    numeric: npt.NDArray[np.float32]
    categories: Integers
    in_files: bool = False
    terms: SparseColumns = NO_TERMS
    row_levels: Levels = NO_LEVELS

    kind: ClassVar[str] = "table"
    second_pass: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.numeric)

    def take(self, rows: Integers) -> TableInputs:
        """The given rows, in the given order."""
        terms = self.terms.take(rows) if self.terms.width else self.terms
        levels = self.row_levels.take(rows)
        return TableInputs(self.numeric[rows], self.categories[rows], False, terms, levels)

    def between(self, start: int, stop: int) -> TableInputs:
        """The rows from `start` to `stop`, of which numbers and codes are not copied."""
        rows = slice(start, stop)
        terms = self.terms.take(rows) if self.terms.width else self.terms
        levels = self.row_levels.take(rows)
        return TableInputs(self.numeric[rows], self.categories[rows], self.in_files, terms, levels)

    def columns(self) -> TableInputs:
        """Itself."""
        return self

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """Numbers and codes."""
        some = self.between(start, stop).dense()
        return {"numeric": some.numeric, "categories": some.categories}

    def dense(self) -> TableInputs:
        """The same with the terms among the numbers."""
        if not self.terms.width:
            return self
        numeric = np.concatenate([self.numeric, self.terms.dense()], axis=1)
        return TableInputs(numeric, self.categories, row_levels=self.row_levels)

    @property
    def levels(self) -> Levels:
        """`row_levels`."""
        return self.row_levels


@dataclass(frozen=True, slots=True)
class Undecoded:
    """Image files of which only a sample was decoded: its ascending `places` (positions), int64
    [S], and the byte hash of each file, [M]. Without hashes if all images were decoded."""

    places: Integers
    hashes: tuple[bytes, ...]


ALL_DECODED = Undecoded(np.empty(0, dtype=np.int64), ())


@dataclass(frozen=True, slots=True)
class ImageInputs(Inputs):
    """N images, 0 black: the given `rows` int64 [N] of `pixels` uint8 [M, C, H, W], which may be
    mapped from a file and larger than memory. Nothing is copied before it is asked for.

    Where only a sample of M files was decoded, `pixels` are those of the sample, uint8 [S, C, H,
    W], and to ask for those of another image is a programmer's mistake.
    """

    pixels: Bytes
    rows: Integers
    undecoded: Undecoded = ALL_DECODED

    kind: ClassVar[str] = "images"
    noun: ClassVar[str] = "images"
    rows_at_once: ClassVar[int] = 512

    @classmethod
    def of(cls, pixels: Bytes) -> ImageInputs:
        """All images of an array."""
        return cls(pixels, np.arange(len(pixels)))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        channels, height, width = self.pixels.shape[1:]
        return channels, height, width

    def pictures(self) -> ImageInputs:
        """Itself."""
        return self

    def take(self, rows: Integers) -> ImageInputs:
        """The given images, in the given order."""
        return replace(self, rows=self.rows[rows])

    @property
    def is_sample(self) -> bool:
        """Was only a sample decoded?"""
        return bool(self.undecoded.hashes)

    def decoded(self) -> tuple[Integers, ImageInputs]:
        """Positions and pixels of the decoded images: all, unless sampled."""
        if not self.is_sample:
            return np.arange(len(self)), self
        there = np.flatnonzero(np.isin(self.rows, self.undecoded.places))
        rows = np.searchsorted(self.undecoded.places, self.rows[there])
        return there, ImageInputs(self.pixels, rows)

    def copied(self, start: int = 0, stop: int | None = None) -> Bytes:
        """The images from `start` to `stop` in memory, uint8 [stop - start, C, H, W]."""
        assert not self.is_sample, "the pixels of a sample are those of `decoded`"
        return np.asarray(self.pixels[self.rows[start:stop]])

    def columns(self) -> TableInputs:
        """The pixels in [0, 1], row by row."""
        flat = self.copied().reshape(len(self), -1).astype(np.float32) / np.float32(255)
        return TableInputs(flat, np.empty((len(self), 0), dtype=np.int64))

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """The pixels."""
        return {"pixels": self.copied(start, stop)}

    def blocks(self) -> Iterator[Bytes]:
        """All images, in chunks of some megabytes."""
        count = max(1, _BLOCK_BYTES // max(1, math.prod(self.size)))
        for start in range(0, len(self), count):
            yield self.copied(start, start + count)

    def hashes(self) -> list[bytes]:
        """Hash of each image's pixels; for a sample, of each file's bytes."""
        if self.is_sample:
            return [self.undecoded.hashes[row] for row in self.rows.tolist()]
        return [
            hashlib.blake2b(image.tobytes(), digest_size=16).digest()
            for block in self.blocks()
            for image in block
        ]


def as_columns(inputs: Inputs) -> TableInputs:
    """Inputs as columns, for tabular models: an image is its pixels in [0, 1], row by row. A text
    has no columns."""
    return inputs.columns()


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the split: training, validation or test.

    `frame` holds the typed columns before encoding (for slices and for people), `target` int64
    class codes [N] or float64 values [N] (for text the token count of each segment), `rows` the
    0-based positions in the source file, `units` int64 [N] the independent unit of each row, which
    the bootstrap resamples (its group under a group split, a time block under a time split,
    otherwise the row itself). `weights` float64 [N] say how much each row counts in the training;
    empty where all count alike. `soft_targets` float64 [N, C] are what a teacher predicts of them;
    without one [0, 0]. `teacher_states` float32 [N, D] are its hidden states of them, [0, 0] where
    they are not learned.
    """

    name: PartName
    frame: pl.DataFrame
    inputs: Inputs
    target: npt.NDArray[Any]
    rows: Integers
    units: Integers
    weights: Floats = field(default_factory=lambda: NO_WEIGHTS)
    soft_targets: Floats = field(default_factory=lambda: NO_SOFT_TARGETS)
    teacher_states: npt.NDArray[np.float32] = field(default_factory=lambda: NO_STATES)

    def __len__(self) -> int:
        return len(self.rows)

    def learned(self) -> Part:
        """The part with targets as a model learns them: measured against the levels of its rows."""
        levels = self.inputs.levels
        return replace(self, target=levels.learned(self.target)) if len(levels.scale) else self
