"""Learners: libraries that fit themselves, and the training loop, behind one protocol."""

from __future__ import annotations

from typing import Any, Protocol, assert_never, final

from trainwright.contract.document import Contract
from trainwright.core.process import loading
from trainwright.data.types import Prepared
from trainwright.model.families import library_family
from trainwright.model.library_family import LibraryFamily, TreeFamily
from trainwright.planner.plan import Plan
from trainwright.predictor.calibration import USUAL_THRESHOLD
from trainwright.predictor.predictor import Predictor
from trainwright.run.learners.fit_result import Fitted, job_of
from trainwright.run.run_context import RunContext


class Learner(Protocol):
    """Fits a predictor to prepared data.

    It may use the training and validation parts only, and ends early once the stop flag is set.
    """

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train on the training rows, steered by the validation rows."""
        ...


def is_calibrated(contract: Contract) -> bool:
    """Is something fitted to the scores of a trained model: probabilities, or decisions?"""
    training = contract.training
    asks = training.calibration != "none" or training.threshold != USUAL_THRESHOLD
    return asks or bool(contract.metric.costs)


def build_learner(plan: Plan) -> Learner:
    """Build the learner of a plan's model, with the calibration of its scores."""
    learner = build_uncalibrated(plan)
    return CalibratingLearner(learner, plan.contract) if is_calibrated(plan.contract) else learner


def build_uncalibrated(plan: Plan, rounds: tuple[int, ...] = ()) -> Learner:
    """Build the learner of a plan's model alone, whose scores are calibrated elsewhere or not. With
    `rounds` the trees of each of several targets are so many."""
    model = plan.contract.model
    match model.traits.trained_by:
        case "library":
            family = library_family(model)
            if isinstance(family, TreeFamily):
                from trainwright.run.learners.tree_learner import TreeLearner

                return TreeLearner(model, family, plan, rounds)
            return LibraryLearner(family, plan.contract)
        case "loop":
            # Imported here: only networks need torch.
            with loading():
                from trainwright.run.learners.network_learner import NetworkLearner

            return NetworkLearner(model, plan)
        case "selection":
            raise AssertionError("a selection has a learner of its own: learner_of")
        case _:
            assert_never(model.traits.trained_by)


@final
class LibraryLearner:
    """A library that fits in one go."""

    def __init__(self, family: LibraryFamily[Any], contract: Contract) -> None:
        self._family = family
        self._contract = contract

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Fit; an interruption is noticed afterwards."""
        with run.spent.training(run.folder.full_name):
            fitted = self._family.fit(self._contract.model, job_of(self._contract, prepared))
        predictor = Predictor(prepared.features, prepared.target, fitted.scorer)
        if run.flag.is_up:
            return Fitted(predictor, "interrupted", run.flag.why)
        return Fitted(predictor, "finished", fitted.reason, fitted.warnings)


@final
class CalibratingLearner:
    """Calibrates what another learner has fitted, on the validation rows."""

    def __init__(self, learner: Learner, contract: Contract) -> None:
        self._learner = learner
        self._contract = contract

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Fit, then calibrate; of a training that did not finish nothing is calibrated."""
        fitted = self._learner.fit(prepared, run)
        if fitted.kind in ("interrupted", "halted"):
            return fitted
        # Imported here: few contracts calibrate.
        from trainwright.run.learners.calibrate import calibrate, calibrate_quantiles

        part = prepared.validation
        if fitted.predictor.target.quantiles:
            return calibrate_quantiles(fitted, part)
        scores = fitted.predictor.score(part.inputs)
        return calibrate(fitted, scores, part.target, part.units, self._contract)
