"""Learner of one candidate: encodes the rows as its kind of model reads them, and trains within its
share of the time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import final

from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.formatting import many, show_seconds
from trainwright.data.types import Prepared
from trainwright.model.baselines.dummy import fit_constant
from trainwright.model.families import library_family
from trainwright.planner.plan import Plan
from trainwright.planner.read_device import read_device
from trainwright.planner.resolve.choice import Choice
from trainwright.planner.resolve.compute_choices import PLAIN
from trainwright.predictor.predictor import Predictor
from trainwright.run.input_shapes import shape_of
from trainwright.run.learners.fit_result import Fitted
from trainwright.run.learners.learner import build_uncalibrated
from trainwright.run.run_context import RunContext
from trainwright.run.selection.cut_to_time import UNCUT, Cut, is_decided, read_cut
from trainwright.run.selection.hold_out import HoldOut
from trainwright.run.trial.library_times import time_library

_EPOCHS = "training.num_epochs"
SHARE_OF_STEPS = 0.8
"""Of the seconds that are left, to be planned: the rest is for what was not foreseen."""

_REHEARSED_SHARE, _MOST_REHEARSED = 0.05, 3.0
_TOLERANCE = 3.0
"""How many times its share a library may take that cannot be cut: others leave time over."""


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
