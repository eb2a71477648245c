"""Segments of a text as inputs, and the sources of the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trainwright.data.base.levels import NO_LEVELS, Levels
from trainwright.data.base.table import Floats, Inputs, Integers, TableInputs
from trainwright.data.base.token_dtype import Mask, Tokens

DOCUMENT_END = "\x1e"
"""What stands behind each document where there are several: U+001E, the ASCII record separator."""


def from_the_beginning() -> Integers:
    """One start, at 0."""
    return np.zeros(1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Sources:
    """Consecutive sources of a text: start positions, int64 [S] from 0, and names. An unmixed text
    is one unnamed source."""

    starts: Integers = field(default_factory=from_the_beginning)
    names: tuple[str, ...] = ("",)

    def of(self, places: Integers) -> Integers:
        """Source code of each position of the text."""
        return last_begun(self.starts, places)


def last_begun(begins: Integers, places: Integers) -> Integers:
    """Index of the last of `begins` at or before each position."""
    return np.asarray(np.searchsorted(begins, places, side="right") - 1, np.int64)


def _nothing() -> Integers:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class TokenInputs(Inputs):
    """N segments of one sequence of tokens [T], which may be memory-mapped.

    Segment i is the `lengths[i]` tokens predicted from position `starts[i]` on, each from the
    preceding tokens of its document (`documents` are start positions, 0 first). No document spans
    two of the `sources`. `mask` says which tokens count as targets, `byte_counts` [V] how many
    bytes of text each token of the vocabulary stands for; empty where none is asked for.
    """

    tokens: Tokens
    starts: Integers
    lengths: Integers
    documents: Integers = field(default_factory=from_the_beginning)
    sources: Sources = field(default_factory=Sources)
    mask: Mask = "all"
    byte_counts: Integers = field(default_factory=_nothing)

    kind: ClassVar[str] = "tokens"
    are_samples: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def segments(self) -> TokenInputs:
        """Itself."""
        return self

    def beside(self, _positions: Integers) -> Mapping[str, npt.NDArray[Any]]:
        """What the loss knows of targets [N] beside them."""
        return {}

    @property
    def beside_bytes(self) -> int:
        """Of one of them."""
        return 0

    def owners(self) -> Integers:
        """Document index of each segment, int64 [N]."""
        return last_begun(self.documents, self.starts)

    def document_starts(self) -> Integers:
        """Start positions of the documents of these (ascending) segments."""
        owners = self.owners()
        return self.documents[owners[_firsts(owners)]]

    def document_lengths(self) -> Integers:
        """Length in tokens of each of these documents."""
        owners = self.owners()
        firsts = _firsts(owners)
        lengths: Integers = self._ends(firsts) - self.documents[owners[firsts]]
        return lengths

    def source_spans(self) -> Integers:
        """For each source with a segment, ascending: its code and the half-open range of predicted
        positions, int64 [S, 3]."""
        codes = self.sources.of(self.starts)
        firsts = _firsts(codes)
        return np.stack([codes[firsts], self.starts[firsts], self._ends(firsts)], axis=1)

    def rows_of_sources(self) -> Mapping[str, Integers]:
        """Segments of each source of a mixture."""
        codes = self.sources.of(self.starts)
        named = [(code, name) for code, name in enumerate(self.sources.names) if name]
        return {name: np.flatnonzero(codes == code) for code, name in named}

    def target_counts(self) -> Integers:
        """Tokens of each segment that count as targets, int64 [N]."""
        if isinstance(self.mask, str):
            return self.lengths
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        counts = [np.count_nonzero(self.mask[start : start + n]) for start, n in spans]
        return np.array(counts, dtype=np.int64)

    @property
    def levels(self) -> Levels:
        """Bytes of the text of the targets of each segment."""
        if not len(self.byte_counts):
            return NO_LEVELS
        spans = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        counts = [self._bytes(slice(start, start + n)) for start, n in spans]
        return Levels(text_bytes=np.array(counts, dtype=np.float64))

    def _bytes(self, segment: slice) -> int:
        counts = self.byte_counts[self.tokens[segment]]
        return int((counts if isinstance(self.mask, str) else counts * self.mask[segment]).sum())

    def take(self, rows: Integers) -> TokenInputs:
        """The given segments, in the given order."""
        return replace(self, starts=self.starts[rows], lengths=self.lengths[rows])

    def columns(self) -> TableInputs:
        """A text has none: the rules refuse a model of columns."""
        raise AssertionError("the rules refuse a model of columns for a text")

    def arrays(self, _start: int, _stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """A text is scored by its segments."""
        raise AssertionError("a text is scored by its segments")

    def document_sizes(self) -> Floats:
        """As `document_lengths`."""
        return self.document_lengths().astype(np.float64)

    def _ends(self, firsts: Integers) -> Integers:
        """End positions of runs of segments that begin at the segments `firsts`."""
        lasts = np.append(firsts[1:], len(self.starts)) - 1
        ends: Integers = self.starts[lasts] + self.lengths[lasts]
        return ends


def _firsts(codes: Integers) -> Integers:
    """Start indices of runs of equal codes."""
    return np.flatnonzero(np.diff(codes, prepend=-1))
