"""Effect of excluding evaluated rows, for any modality."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.slices import Slice
from trainwright.core.formatting import many
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.experiments.effect_size import Effect
from trainwright.evaluation.experiments.repeated_rows import Mask, judge_without
from trainwright.evaluation.scored_part import Scored


class ExclusionTrial(NamedTuple):
    """Result of a trial: `effects` is empty if it could not be run, with the reason in `method`.
    `clauses` are judged without the suspects. `excluded` is the excluded share of the evaluated
    rows."""

    conditions: tuple[str, str]
    method: str
    effects: tuple[Effect, ...] = ()
    clauses: tuple[Clause, ...] = ()
    excluded: float = 0.0


class JudgedRows(Protocol):
    """An evaluated run of any modality."""

    @property
    def scored(self) -> Scored:
        """Evaluated rows with the scores of the model and the baselines."""
        ...

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """Clauses of the contract on all rows."""
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
    """Re-evaluate the run's predictions without the `excluded` rows [N]; `noun` names a row in
    messages."""
    conditions = (f"on all test {noun}s", f"without those that repeat training {noun}s")
    count = int(excluded.sum())
    if not count:
        return ExclusionTrial(conditions, f"none of the test {noun}s is affected")
    method = f"the run's own predictions without {many(count, f'test {noun}')} of "
    effect, clauses = judge_without(
        excluded, judged.scored, judged.clauses, judged.metric, judged.slices, judged.seed
    )
    share = float(np.mean(excluded))
    return ExclusionTrial(conditions, f"{method}{len(excluded):,}", (effect,), clauses, share)
