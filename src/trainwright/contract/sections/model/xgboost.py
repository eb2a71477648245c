"""`model` of kind `xgboost`: gradient-boosted trees by XGBoost."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import EVERYTHING, Traits
from trainwright.contract.sections.model.tree_ensemble import BOOSTED_COLUMNS, BoostedTrees
from trainwright.contract.sections.section import Auto, NonNegative

XGBoostObjective = Literal[
    "log_loss", "squared_error", "absolute_error", "quantile", "poisson", "lambdarank"
]

_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    rounds="max_trees",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    ranks=True,
    reads_files=False,
    table=BOOSTED_COLUMNS,
    predicts=EVERYTHING,
)


class XGBoost(BoostedTrees):
    """Gradient-boosted trees by XGBoost (Chen and Guestrin 2016, arXiv:1603.02754) on histograms,
    with categories as sets of codes. Needs the extra `xgboost`. Stops adding trees when the
    validation value does not improve, and keeps the best number. Its trees are not kept while they
    grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["xgboost"]

    objective: Auto | XGBoostObjective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae and mape,
    `quantile` (the one of `metric.quantile`) for pinball, `poisson` for poisson_deviance and rmsle,
    `squared_error` for other metrics of numbers, `log_loss` for classes. `poisson` is for counts.
    Of a ranking, `auto` is `lambdarank`, which XGBoost calls `rank:ndcg`; `squared_error` predicts
    the relevance of each row by itself."""

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
