"""The two models that every model is measured against: one that knows nothing, one that is
linear."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainwright.contract.data import Features as FeaturesSection
from trainwright.contract.model import Linear
from trainwright.data.features import fit_features
from trainwright.data.prepare import Prepared
from trainwright.data.table import Floats, Part
from trainwright.model.constant import fit_constant
from trainwright.model.linear import fit_linear
from trainwright.predictor.predictor import Predictor

_LINEAR = Linear(kind="linear", max_iterations=300)


@dataclass(frozen=True, slots=True)
class Baselines:
    """The fitted baselines.

    `shares` says how much of the linear one each encoded column carries on the training rows
    (they sum to 1). `warnings` is what fitting it had to say.
    """

    dummy: Predictor
    linear: Predictor
    shares: Mapping[str, float]
    warnings: tuple[str, ...]

    def scores(self, part: Part) -> dict[str, Floats]:
        """What each gives for a part, `dummy` and `linear`: [N, C] or [N, 1]."""
        return {
            "dummy": self.dummy.score_frame(part.frame),
            "linear": self.linear.score_frame(part.frame),
        }


def fit_baselines(prepared: Prepared, section: FeaturesSection | None = None) -> Baselines:
    """Fit both on the training rows of the same columns.

    The linear one has features of its own, standardised and with medians for missing numbers,
    because the model's may hold NaN; `section` gives the treatment of rare categories.
    """
    train, target = prepared.train, prepared.target
    chosen = (section or FeaturesSection()).model_copy(
        update={"numeric": "standard", "impute": "median"}
    )
    features = fit_features(
        train.frame, prepared.features.columns, prepared.features.cleaning, chosen
    )
    inputs = features.transform(train.frame)
    linear = fit_linear(_LINEAR, inputs, train.target, target.outputs, features.cardinalities)
    spreads = linear.spreads(inputs)
    total = float(spreads.sum()) or 1.0
    names = (*features.numeric_names, *features.categorical_names)
    return Baselines(
        dummy=Predictor(features, target, fit_constant(train.target, target.outputs)),
        linear=Predictor(features, target, linear),
        shares={name: float(one) / total for name, one in zip(names, spreads, strict=True)},
        warnings=tuple(f"the linear baseline: {said}" for said in linear.warnings),
    )
