"""`model` of kind `catboost`: gradient-boosted trees by CatBoost."""

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

CatBoostObjective = Literal[
    "log_loss", "squared_error", "absolute_error", "mape", "quantile", "poisson"
]

_ANY_SCALE = "trees split on any scale, and on missing itself"

_TRAITS = Traits(
    reads=("table",),
    trained_by="library",
    rounds="max_trees",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    reads_files=False,
    table=TableDefaults(
        numeric=("none", _ANY_SCALE),
        impute=("none", _ANY_SCALE),
        categorical=("codes", "CatBoost computes statistics of the target itself"),
    ),
)


class CatBoost(ModelSection):
    """Gradient-boosted trees by CatBoost (Prokhorenkova et al. 2018, arXiv:1706.09516): symmetric
    trees, and categories as ordered statistics of the target, alone and in pairs. Needs the extra
    `catboost`. Strong where categories say much, and slower than other boosting. Its trees are not
    kept while they grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["catboost"]

    objective: Auto | CatBoostObjective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae, `mape` for mape,
    `quantile` (the one of `metric.quantile`) for pinball, `squared_error` for other metrics of
    numbers, `log_loss` for classes. `poisson` is for counts."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation value after which growing ends. The value is the metric for
    numbers where CatBoost has it, else the loss."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""

    depth: Annotated[int, Field(ge=1, le=12)] = 6
    """Splits between the root and each leaf; a tree has 2 ** depth leaves."""

    lambda_l2: NonNegative = 3.0
    """L2 penalty on leaf values."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two. Not with the objectives absolute_error, mape and quantile."""

    @property
    def monotone_columns(self) -> Monotone:
        """See `monotone`."""
        return self.monotone
