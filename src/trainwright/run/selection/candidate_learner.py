"""Learner of one candidate: encodes the rows as its kind of model reads them, and trains within its
share of the time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import final

from trainwright.contract.sections.data.data import TableData
from trainwright.core.files import read_json, write_json
from trainwright.core.formatting import show_seconds
from trainwright.data.types import Prepared
from trainwright.model.dummy import fit_constant
from trainwright.planner.plan import Plan
from trainwright.planner.read_device import read_device
from trainwright.planner.resolve.choice import Choice
from trainwright.planner.resolve.compute_choices import PLAIN
from trainwright.predictor.predictor import Predictor
from trainwright.run.input_shapes import shape_of
from trainwright.run.learners.fit_result import Fitted
from trainwright.run.learners.learner import build_uncalibrated
from trainwright.run.run_context import RunContext
from trainwright.run.selection.hold_out import HoldOut
from trainwright.run.trial.library_times import time_library

_EPOCHS = "training.num_epochs"
_SHARE_OF_STEPS = 0.8
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
        plan = self._plan
        if plan.contract.model.is_loop_trained:
            plan = self._sized(encoded, run)
        elif not plan.contract.model.traits.rounds:
            self._check_time(encoded)
        used = run.spent.used(run.folder.full_name)
        limit = replace(plan.allotment, training_seconds=self._seconds + used)
        return build_uncalibrated(replace(plan, allotment=limit)).fit(encoded, run)

    def _check_time(self, encoded: Prepared) -> None:
        if math.isinf(self._seconds):
            return
        needed = time_library(self._plan, encoded).start
        if needed > _TOLERANCE * self._seconds:
            share = show_seconds(self._seconds)
            raise NoTimeLeft(f"a training needs {show_seconds(needed)}, its share is {share}")

    def _sized(self, encoded: Prepared, run: RunContext) -> Plan:
        """Plan of a network, whose schedule ends within the time."""
        plan = self._plan.with_shape(shape_of(encoded), read_device(True))
        why = "a candidate is not measured"
        plain = [Choice(path, PLAIN[path], why) for path in plan.open_paths]
        # Imported here: only networks need torch.
        from trainwright.planner.compute_trials import take_choices

        plan = plan.with_training(take_choices(plan.contract.training, plain), plain)
        is_open = any(choice.path == _EPOCHS for choice in plan.choices)
        if math.isinf(self._seconds) or not is_open:
            return plan
        epochs = self._epochs(plan, encoded, run)
        training = plan.contract.training.model_copy(update={"num_epochs": epochs})
        return plan.with_training(training, ())

    def _epochs(self, plan: Plan, encoded: Prepared, run: RunContext) -> int:
        """Epochs that fit, measured once: a resumed training keeps them."""
        kept = run.folder.path / "epochs.json"
        if kept.is_file():
            return int(read_json(kept)["epochs"])
        from trainwright.run.trial.rehearse import time_steps

        seconds = min(_MOST_REHEARSED, _REHEARSED_SHARE * self._seconds)
        times = time_steps(plan, encoded, seconds)
        in_epoch = plan.estimate.steps_per_epoch
        epoch = in_epoch * times.step + len(encoded.validation) * times.validation_row + times.save
        fit = int((_SHARE_OF_STEPS * self._seconds - times.start) / epoch)
        epochs = max(1, min(int(plan.contract.training.num_epochs), fit))
        write_json(kept, {"epochs": epochs})
        return epochs
