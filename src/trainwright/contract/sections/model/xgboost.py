"""`model` of kind `xgboost`: gradient-boosted trees by XGBoost."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import (
    ModelSection,
    Monotone,
    TableDefaults,
    Traits,
)
from trainwright.contract.sections.section import Auto, Count, NonNegative, Positive

XGBoostObjective = Literal["log_loss", "squared_error", "absolute_error", "quantile", "poisson"]

_ANY_SCALE = "trees split on any scale, and on missing itself"

_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    rounds="max_trees",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    reads_files=False,
    table=TableDefaults(
        numeric=("none", _ANY_SCALE),
        impute=("none", _ANY_SCALE),
        categorical=("by_count", "trees need help with a column of many categories"),
        reduce=("none", "the model chooses among terms itself"),
        terms=(2000, "trees use few of them"),
    ),
)


class XGBoost(ModelSection):
    """Gradient-boosted trees by XGBoost (Chen and Guestrin 2016, arXiv:1603.02754) on histograms,
    with categories as sets of codes. Needs the extra `xgboost`. Stops adding trees when the
    validation value does not improve, and keeps the best number. Its trees are not kept while they
    grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["xgboost"]

    objective: Auto | XGBoostObjective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae and mape,
    `quantile` (the one of `metric.quantile`) for pinball, `squared_error` for other metrics of
    numbers, `log_loss` for classes. `poisson` is for counts."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation value after which growing ends. The value is the metric for
    numbers where XGBoost has it, else the loss."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""

    max_depth: Annotated[int, Field(ge=1, le=30)] = 6
    """Most splits between the root and a leaf."""

    min_child_weight: NonNegative = 1.0
    """Least sum of second derivatives of the loss in a leaf; for squared errors, of rows."""

    feature_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the features that each tree may use."""

    bagging_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the rows that each tree sees."""

    lambda_l2: NonNegative = 1.0
    """L2 penalty on leaf values."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two. Not with the objectives absolute_error and quantile."""

    @property
    def monotone_columns(self) -> Monotone:
        """See `monotone`."""
        return self.monotone
