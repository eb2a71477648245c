"""What excluding rows changes, of rows of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from trainwright.contract.metric import Metric
from trainwright.contract.slices import Slice
from trainwright.core.formatting import many
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.experiments.effect_size import Effect
from trainwright.evaluation.experiments.repeated_rows import Mask, judge_without


class ExclusionTrial(NamedTuple):
    """What a finding changes: `effects` is empty where it could not be tried, and `method` says
    why. `clauses` are judged without what it names. `excluded` is the share of the judged rows that
    it excludes."""

    conditions: tuple[str, str]
    method: str
    effects: tuple[Effect, ...] = ()
    clauses: tuple[Clause, ...] = ()
    excluded: float = 0.0


class JudgedRows(Protocol):
    """A run that was judged on rows of any kind."""

    @property
    def scored(self) -> Scored:
        """The judged rows with what the model and the baselines gave for them."""
        ...

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of the contract on all of them."""
        ...

    @property
    def metric(self) -> Metric:
        """The contract's metric."""
        ...

    @property
    def slices(self) -> Sequence[Slice]:
        """The contract's slices."""
        ...

    @property
    def seed(self) -> int:
        """The contract's seed."""
        ...


def without_rows(excluded: Mask, judged: JudgedRows, noun: str) -> ExclusionTrial:
    """The run's own predictions judged again without some of the rows [N], each of which is a
    `noun`."""
    conditions = (f"on all test {noun}s", f"without those that repeat training {noun}s")
    count = int(excluded.sum())
    if not count:
        return ExclusionTrial(conditions, f"none of the test {noun}s is concerned")
    method = f"the run's own predictions without {many(count, f'test {noun}')} of "
    effect, clauses = judge_without(
        excluded, judged.scored, judged.clauses, judged.metric, judged.slices, judged.seed
    )
    share = float(np.mean(excluded))
    return ExclusionTrial(conditions, f"{method}{len(excluded):,}", (effect,), clauses, share)
