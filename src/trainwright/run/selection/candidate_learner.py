"""Learner of one candidate, and the rows that it is trained on and compared on.

It encodes the rows as its kind of model reads them, and trains within its share of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.formatting import many, show_seconds
from trainwright.data.base.inputs import Integers, Part
from trainwright.data.encode_again import TypedRows, deal_folds, encode_again, without_fold
from trainwright.data.types import Prepared
from trainwright.evaluation.candidates.compare_candidates import ComparedRows
from trainwright.model.baselines.dummy import fit_constant
from trainwright.model.families import library_family
from trainwright.model.input_shape import shape_of
from trainwright.planner.plan import Plan
from trainwright.planner.plan_facts import read_device
from trainwright.planner.resolve.compute_choices import PLAIN
from trainwright.planner.resolve.training_choices import Choice
from trainwright.predictor.predictor import Predictor
from trainwright.run.learners.learner import build_uncalibrated
from trainwright.run.library_fit import Fitted
from trainwright.run.run_context import RunContext
from trainwright.run.selection.cut_to_time import UNCUT, Cut, is_decided, read_cut
from trainwright.run.trial.tree_times import time_library

_USUAL_FOLDS = 5
_FEWEST_ROWS, _MOST_ROWS = 100, 50_000
_SECONDS_OF_1000_ROWS = 4.0
"""Of a budget with less, five trainings of each candidate would all be cut short; so many rows are
enough to compare on without."""

_EPOCHS = "training.num_epochs"

SHARE_OF_STEPS = 0.8
"""Of the seconds that are left, to be planned: the rest is for what was not foreseen."""

_REHEARSED_SHARE, _MOST_REHEARSED = 0.05, 3.0

_TOLERANCE = 3.0
"""How many times its share a library may take that cannot be cut: others leave time over."""


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
    budget = contract.budget.seconds()
    most = _MOST_ROWS if math.isinf(budget) else 1000 * budget / _SECONDS_OF_1000_ROWS
    return _USUAL_FOLDS if selection.ensemble and _FEWEST_ROWS <= rows <= most else 0


@final
class NoTimeLeft(Exception):
    """A candidate cannot be trained within its share of the time; says why."""


@final
class DummyLearner:
    """Class shares, or the mean, of the training rows."""

    def __init__(self, division: HoldOut, number: int) -> None:
        self._division = division
        self._number = number

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:  # noqa: ARG002
        """Count."""
        target = self._division.trained_targets(self._number)
        constant = fit_constant(target, prepared.target.outputs)
        predictor = Predictor(prepared.features, prepared.target, constant)
        return Fitted(predictor, "finished", "a constant")


@final
class CandidateLearner:
    """One training of a candidate; `seconds` limit it."""

    def __init__(self, plan: Plan, division: HoldOut, number: int, seconds: float) -> None:
        self._plan = plan
        self._division = division
        self._number = number
        self._seconds = seconds

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:  # noqa: ARG002
        """Encode the rows and train.

        Raises:
            NoTimeLeft: a library that cannot be cut would take longer.
        """
        section = TableData.of(self._plan.contract.data)
        encoded = self._division.encoded(self._number, section)
        plan, model = self._plan, self._plan.contract.model
        if model.is_loop_trained:
            plan = plain_plan(plan, encoded)
        folder = run.folder.path
        if not (math.isinf(self._seconds) or model.traits.rounds or is_decided(folder)):
            cut = self._cut_epochs if model.is_loop_trained else self._cut_library
            cut(plan, encoded).write(folder)
        plan = read_cut(folder).of_plan(plan)
        used = run.spent.used(run.folder.full_name)
        limit = replace(plan.allotment, training_seconds=self._seconds + used)
        return build_uncalibrated(replace(plan, allotment=limit)).fit(encoded, run)

    def _cut_library(self, plan: Plan, encoded: Prepared) -> Cut:
        """Fewer trees of a forest that would take longer than its share."""
        model = plan.contract.model
        family, times = library_family(model), time_library(plan, encoded)
        grows = len(encoded.train) / max(1, times.fitted_rows) if family.scores_by_rows else 1.0
        needed = times.start + times.score_row * grows * len(encoded.validation)
        if needed <= self._seconds:
            return UNCUT
        for cut in shortened(model, SHARE_OF_STEPS * self._seconds / needed):
            return cut
        if needed > _TOLERANCE * self._seconds:
            share = show_seconds(self._seconds)
            raise NoTimeLeft(f"a training needs {show_seconds(needed)}, its share is {share}")
        return UNCUT

    def _cut_epochs(self, plan: Plan, encoded: Prepared) -> Cut:
        """Fewer epochs of a network, whose schedule ends within the time."""
        if not any(choice.path == _EPOCHS for choice in plan.choices):
            return UNCUT
        # Imported here: only networks need torch.
        from trainwright.run.trial.rehearse import time_steps

        seconds = min(_MOST_REHEARSED, _REHEARSED_SHARE * self._seconds)
        times = time_steps(plan, encoded, seconds)
        in_epoch, most = plan.estimate.steps_per_epoch, int(plan.contract.training.num_epochs)
        epoch = in_epoch * times.step + len(encoded.validation) * times.validation_row + times.save
        fit = int((SHARE_OF_STEPS * self._seconds - times.start) / epoch)
        epochs = max(1, min(most, fit))
        said = f"{epochs} of {many(most, 'epoch')}" if epochs < most else ""
        return Cut({_EPOCHS: epochs}, said)


def shortened(model: ModelSection, share: float) -> Iterator[Cut]:
    """A library's model with this share of what takes its time, such as trees; none if it cannot be
    cut, or not to so little."""
    family = library_family(model)
    for fewer in family.shortened(model, share):
        settings = {
            f"model.{key}": value
            for key, value in fewer.model_dump(mode="json").items()
            if value != model.model_dump(mode="json")[key]
        }
        yield Cut(settings, f"{family.describe(fewer)}, of {family.describe(model)}", share)


def plain_plan(plan: Plan, encoded: Prepared) -> Plan:
    """Plan of a network of these rows, with nothing left open: a candidate is not measured."""
    # Imported here: only networks need torch.
    from trainwright.planner.compute_trials import take_choices

    plan = plan.with_shape(shape_of(encoded), read_device(True))
    why = "a candidate is not measured"
    plain = [Choice(path, PLAIN[path], why) for path in plan.open_paths]
    return plan.with_training(take_choices(plan.contract.training, plain), plain)
