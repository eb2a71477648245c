"""A run evaluated on a table, as the experiments on its findings see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import Data, fold_count
from trainwright.contract.sections.metric import Metric, Slice
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.naive_forecasts import LEAST_COUNT
from trainwright.evaluation.clause import LINEAR, Clause
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.experiments.probe import ProbeKind
from trainwright.evaluation.metrics.predictions import Answers, answers_of


class _All(NamedTuple):
    """All typed rows of the data with target and unit."""

    frame: pl.DataFrame
    target: Floats | Integers
    units: Integers


@final
@dataclass(frozen=True)
class JudgedTable:
    """A run evaluated on a table. `folds` is the fold of each evaluated row, all 0 without folds;
    `probe` is the kind of the probe."""

    prepared: Prepared
    section: Data
    scored: Scored
    clauses: tuple[Clause, ...]
    metric: Metric
    slices: Sequence[Slice]
    folds: Integers
    probe: ProbeKind
    seed: int

    @property
    def positive(self) -> int:
        """The code of the positive class."""
        return self.prepared.target.positive_code

    def answers(
        self, truth: Floats | Integers, scores: Floats, queries: Integers | None = None
    ) -> Answers:
        """Answers of a probe. It predicts means; rates of counts are at least `LEAST_COUNT`."""
        if self.prepared.target.is_count:
            scores = np.maximum(scores, LEAST_COUNT)
        costs = self.prepared.target.costs
        return answers_of(truth, scores, self.positive, queries=queries, costs=costs)

    @property
    def is_ranking(self) -> bool:
        """Are rows ranked within queries?"""
        return self.prepared.target.task == "ranking"

    def queries(self, frame: pl.DataFrame) -> Integers | None:
        """The query of each row of a ranking."""
        return self.prepared.target.queries(frame)

    @property
    def columns(self) -> tuple[ColumnType, ...]:
        """The feature columns of the model."""
        return self.prepared.table.columns

    @property
    def probes(self) -> tuple[ProbeKind, ...]:
        """The run's probe, plus a linear one if a clause compares with the linear baseline."""
        beside = any(one.against == LINEAR for one in self.clauses)
        return ("boosting", "linear") if beside and self.probe == "boosting" else (self.probe,)

    @cached_property
    def every(self) -> _All:
        """Rows of all parts; under cross-validation the test part, which holds all rows."""
        one = self.prepared
        parts = (one.test,) if fold_count(self.section) else (one.train, one.validation, one.test)
        names = [
            name
            for name in parts[0].frame.columns
            if all(name in part.frame.columns for part in parts)
        ]
        return _All(
            pl.concat([part.frame.select(names) for part in parts]),
            np.concatenate([part.target for part in parts]),
            np.concatenate([part.units for part in parts]),
        )

    def splits(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame, Integers]]:
        """Training rows, the evaluated rows and the positions of the latter, for each split."""
        judged = self.scored.part.frame
        if not fold_count(self.section):
            yield self.prepared.train.frame, judged, np.arange(judged.height)
            return
        for fold in np.unique(self.folds):
            held = np.flatnonzero(self.folds == fold)
            yield judged[np.flatnonzero(self.folds != fold)], judged[held], held
