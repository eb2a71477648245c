"""Rows that candidates are trained on, and those on which they are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.data.base.table import Integers, Part
from trainwright.data.encode_again import TypedRows, deal_folds, encode_again, without_fold
from trainwright.data.types import Prepared
from trainwright.evaluation.candidates.compare_candidates import ComparedRows

_USUAL_FOLDS = 5
_FEWEST_ROWS = 100
_SECONDS_OF_1000_ROWS = 4.0
"""Of a budget with less, five trainings of each candidate would all be cut short; so many rows are
enough to compare on without."""


@final
@dataclass(frozen=True, slots=True)
class HoldOut:
    """Without folds, each candidate is one model of the training rows, and is compared on the
    validation rows. With folds of both together, it is a model a fold, and each row is scored by
    the one that did not train on it. `held_out` are the rows of each training that are scored, as
    positions in `pool`."""

    prepared: Prepared
    seed: int
    pool: TypedRows
    held_out: tuple[Integers, ...]
    has_folds: bool

    @classmethod
    def of(cls, contract: Contract, prepared: Prepared) -> Self:
        """As a resolved contract says."""
        count = folds_of(contract, prepared)
        seed, train = contract.split_seed, prepared.train
        pool = TypedRows.pooled(prepared)
        if not count:
            held = np.arange(len(train), len(pool))
            return cls(prepared, seed, pool, (held,), has_folds=False)
        dealt = deal_folds(pool, len(prepared.target.classes), count, seed)
        held_out = tuple(np.flatnonzero(dealt == fold) for fold in range(count))
        return cls(prepared, seed, pool, held_out, has_folds=True)

    @property
    def count(self) -> int:
        """Trainings of a candidate."""
        return len(self.held_out)

    def encoded(self, number: int, section: TableData) -> Prepared:
        """Data of one training, encoded as the section says."""
        if not self.has_folds:
            return encode_again(self.prepared, section, self.seed)
        held = self.held_out[number]
        return without_fold(self.prepared, section, self.seed, self.pool, held)

    def trained_targets(self, number: int) -> npt.NDArray[Any]:
        """Targets of the rows of one training."""
        held = np.zeros(len(self.pool), dtype=np.bool_)
        held[self.held_out[number]] = True
        return np.asarray(self.pool.target[~held])

    def compared(self) -> ComparedRows:
        """Rows on which candidates are compared, in the order of the trainings."""
        rows = np.concatenate(self.held_out)
        sizes = [len(one) for one in self.held_out]
        folds = np.repeat(np.arange(self.count), sizes) if self.has_folds else None
        return ComparedRows(
            self.pool.target[rows],
            self.pool.units[rows],
            self.prepared.target.positive_code,
            folds,
            self.prepared.target.costs,
        )

    def scored_part(self, number: int) -> TypedRows:
        """The rows of one training that are scored."""
        return self.pool.take(self.held_out[number])

    def timed_part(self) -> Part:
        """Rows on which latencies are measured."""
        return self.prepared.validation


def folds_of(contract: Contract, prepared: Prepared) -> int:
    """Folds of bagging; 0 without."""
    selection, rows = ModelSelection.of(contract.model), len(prepared.train)
    asked = selection.bagging
    if asked == "off" or contract.data.follows_time:
        return 0
    if asked != "auto":
        return asked
    has_time = contract.budget.seconds() >= _SECONDS_OF_1000_ROWS * rows / 1000
    return _USUAL_FOLDS if selection.ensemble and rows >= _FEWEST_ROWS and has_time else 0
