"""Tokenised queries with their passages: what a bi-encoder reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.base.table import Inputs, Integers, TableInputs


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
