"""The rows by which trials are compared: the validation rows, or folds of training and validation
rows together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.run_settings import Tune
from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.columns.target import Target
from trainwright.data.encode_again import TypedRows, deal_folds, without_fold
from trainwright.evaluation.evaluate import Scored
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.run.prepared_data import PreparedData


@final
@dataclass(frozen=True, slots=True)
class TrialRows:
    """The rows of `part` in the order in which trainings score them, and the fold [N] of each; no
    folds where one training is scored on the validation rows. `held_out` are the rows of each fold,
    as positions in the pool of both parts. No test row is among them."""

    part: Part
    target: Target
    folds: Integers | None = None
    held_out: tuple[Integers, ...] = ()

    @classmethod
    def of(cls, data: PreparedData, section: Tune) -> Self:
        """Those of prepared data.

        Raises:
            Mistake: there are none, or its rows cannot be dealt to folds.
        """
        prepared, contract = data.ready.prepared, data.ready.plan.contract
        target, validation = prepared.target, prepared.validation
        if not len(validation):
            raise Mistake(
                Problem(
                    "a search compares its trials on validation rows, and there are none",
                    path="data.split.validation",
                    fix="give them a share of the rows",
                )
            )
        if section.folds == "off":
            return cls(validation, target)
        described = contract.data
        has_columns = prepared.features.reads_columns
        if not has_columns or described.follows_time or described.weight_column:
            raise Mistake(
                Problem(
                    "only rows of a table without an order in time and without weights have folds",
                    path="tune.folds",
                    found=str(section.folds),
                    fix="write folds: off, which scores on the validation rows",
                )
            )
        pool = TypedRows.pooled(prepared)
        dealt = deal_folds(pool, len(target.classes), section.folds, contract.split_seed)
        held_out = tuple(np.flatnonzero(dealt == fold) for fold in range(section.folds))
        rows = pool.take(np.concatenate(held_out))
        part = replace(
            validation, frame=rows.frame, target=rows.target, rows=rows.rows, units=rows.units
        )
        folds = np.repeat(np.arange(section.folds), [len(rows) for rows in held_out])
        return cls(part, target, folds, held_out)

    def __len__(self) -> int:
        return len(self.part)

    @property
    def units(self) -> Integers:
        """The independent unit [N] of each row."""
        return self.part.units

    def answers(self, scores: Floats) -> Answers:
        """The rows with scores [N, C] or [N, 1]."""
        return Scored(self.part, self.target, scores, folds=self.folds).answers()

    def trainings(self, data: PreparedData) -> Iterator[tuple[str, PreparedData]]:
        """The data of each training, whose validation rows are scored, with the end of the name of
        its run."""
        if not self.held_out:
            yield "", data
            return
        prepared, contract = data.ready.prepared, data.ready.plan.contract
        pool, section = TypedRows.pooled(prepared), TableData.of(contract.data)
        for fold, held_out in enumerate(self.held_out, 1):
            inner = without_fold(prepared, section, contract.split_seed, pool, held_out)
            yield f"-fold-{fold}", replace(data, ready=replace(data.ready, prepared=inner))
