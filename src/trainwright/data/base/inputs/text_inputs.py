"""Tokenised texts, one row each: what an encoder of texts reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from trainwright.data.base.table import Inputs, Integers, TableInputs
from trainwright.data.base.token_dtype import Tokens


class Truncation(NamedTuple):
    """Rows that were longer than a model reads, the tokens that they lost, and the tokens of all
    rows before."""

    rows: int = 0
    lost: int = 0
    tokens: int = 0


NOTHING_CUT = Truncation()


@dataclass(frozen=True, slots=True)
class TextInputs(Inputs):
    """N texts, or pairs of texts, as the tokens of a tokenizer.

    Row i is the `lengths[i]` tokens [T] from `starts[i]` on, which may be memory-mapped. The first
    `firsts[i]` are of segment 0, the others of segment 1, the second text of a pair. `pad` is what
    stands behind the end of a shorter row.
    """

    tokens: Tokens
    starts: Integers
    lengths: Integers
    firsts: Integers
    pad: int
    is_paired: bool = False
    cut: Truncation = NOTHING_CUT

    kind: ClassVar[str] = "texts"
    noun: ClassVar[str] = "texts"
    rows_at_once: ClassVar[int] = 128

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Integers) -> TextInputs:
        """The given rows, in the given order."""
        return replace(
            self,
            starts=self.starts[rows],
            lengths=self.lengths[rows],
            firsts=self.firsts[rows],
        )

    def columns(self) -> TableInputs:
        """Tokens are no columns: the linear baseline encodes the texts itself."""
        raise AssertionError("the rules refuse a model of columns for tokens")

    def arrays(self, start: int, stop: int, /) -> Mapping[str, npt.NDArray[Any]]:
        """As `padded`, to the longest of these rows."""
        rows = np.arange(start, min(stop, len(self)))
        return self.padded(rows, int(self.lengths[rows].max(initial=1)))

    def scoring_order(self) -> Integers:
        """By length, so that little is padded."""
        return np.argsort(self.lengths, kind="stable")

    def padded(self, rows: Integers, width: int) -> dict[str, npt.NDArray[Any]]:
        """The arguments of an encoder, int64 [B, W]: tokens, what of them is no padding, and of
        pairs the segments."""
        places = np.arange(width)
        within = places < self.lengths[rows][:, None]
        sources = (self.starts[rows][:, None] + places)[within]
        ids = np.full(within.shape, self.pad, dtype=np.int64)
        ids[within] = self.tokens[sources]
        arrays = {"input_ids": ids, "attention_mask": within.astype(np.int64)}
        if self.is_paired:
            second = within & (places >= self.firsts[rows][:, None])
            arrays["token_type_ids"] = second.astype(np.int64)
        return arrays
