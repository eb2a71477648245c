"""Learners: libraries that fit themselves, and the training loop, behind one protocol."""

from __future__ import annotations

from typing import Protocol, assert_never, final

from trainwright.contract.sections.model import (
    Boosting,
    Gpt,
    Linear,
    Mlp,
    Model,
    Pretrained,
    ResNet,
    TabularResNet,
)
from trainwright.core.import_gc import loading
from trainwright.data.base.table import Part, as_columns
from trainwright.data.types import Prepared
from trainwright.planner.plan import Plan
from trainwright.predictor.predictor import Predictor
from trainwright.run.learners.fit_result import Fitted
from trainwright.run.run_context import RunContext


class Learner(Protocol):
    """Fits a predictor to prepared data.

    It may use the training and validation parts only, and ends early once the stop flag is set.
    """

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Train on the training rows, steered by the validation rows."""
        ...


def build_learner(plan: Plan) -> Learner:
    """Build the learner of a plan's model."""
    model: Model = plan.contract.model
    match model:
        case Boosting():
            # Imported here: only trees need their library.
            with loading():
                from trainwright.run.learners.tree_learner import BoostingLearner

            return BoostingLearner(model, plan)
        case Linear():
            return LinearLearner(model)
        case Mlp() | TabularResNet() | ResNet() | Gpt():
            # Imported here: only networks need torch.
            with loading():
                from trainwright.run.learners.network_learner import NetworkLearner

            return NetworkLearner(model, plan)
        case Pretrained():
            raise AssertionError("a plan has no model that this version cannot train")
        case _:
            assert_never(model)


@final
class LinearLearner:
    """Logistic or ridge regression."""

    def __init__(self, section: Linear) -> None:
        self._section = section

    def fit(self, prepared: Prepared, run: RunContext) -> Fitted:
        """Solve for the coefficients; the validation rows are not needed."""
        from trainwright.model.linear.linear_fit import fit_linear

        train: Part = prepared.train
        linear = fit_linear(
            self._section,
            as_columns(train.inputs),
            train.target,
            prepared.target.outputs,
            prepared.features.cardinalities,
        )
        predictor = Predictor(prepared.features, prepared.target, linear)
        if run.flag.is_up:
            return Fitted(predictor, "interrupted", run.flag.why)
        return Fitted(predictor, "finished", "solved", linear.warnings)
