"""`model` of kind `boosting`: gradient-boosted trees."""

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

Objective = Literal["log_loss", "squared_error", "absolute_error", "mape", "quantile", "poisson"]

_ANY_SCALE = "trees split on any scale, and on missing itself"

_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    rounds="max_trees",
    unit="tree",
    training_keys=frozenset(
        {
            "training.seeds",
            "training.checkpointing",
            "training.checkpointing.save_every_minutes",
            "training.checkpointing.expected_hours_between_failures",
            "training.checkpointing.on_failure",
        }
    ),
    reads_missing=True,
    table=TableDefaults(
        numeric=("none", _ANY_SCALE),
        impute=("none", _ANY_SCALE),
        categorical=("by_count", "trees need help with a column of many categories"),
        reduce=("none", "the model chooses among terms itself"),
        terms=(2000, "trees use few of them"),
    ),
)


class Boosting(ModelSection):
    """Gradient-boosted trees (LightGBM). Stops adding trees when the validation value does not
    improve, and keeps the best number. The defaults are those of the benchmark of default models:
    columns and rows drawn for each tree, and a penalty on leaf values, against overfitting."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["boosting"]

    objective: Auto | Objective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae, `mape` for mape,
    `quantile` (the one of `metric.quantile`) for pinball, `squared_error` for other metrics of
    numbers, `log_loss` for classes. `poisson` is for counts, whose spread grows with their mean."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation value after which growing ends. The value is the metric for
    numbers where LightGBM has it, else the loss: of few rows an AUC moves too little to tell."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""

    num_leaves: Annotated[int, Field(ge=2)] = 31
    """Most leaves of one tree."""

    min_data_in_leaf: Count = 20
    """Fewest training rows in a leaf."""

    feature_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the features that each tree may use."""

    bagging_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the rows that each tree sees."""

    lambda_l2: NonNegative = 1.0
    """L2 penalty on leaf values."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two. Not with the objectives absolute_error, mape and quantile."""

    @property
    def monotone_columns(self) -> Monotone:
        """See `monotone`."""
        return self.monotone
