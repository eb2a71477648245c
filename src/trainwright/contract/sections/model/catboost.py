"""`model` of kind `catboost`: gradient-boosted trees by CatBoost."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import EVERYTHING, Traits
from trainwright.contract.sections.model.tree_ensemble import TREE_COLUMNS, BoostedTrees
from trainwright.contract.sections.section import Auto, NonNegative

CatBoostObjective = Literal[
    "log_loss", "squared_error", "absolute_error", "mape", "quantile", "poisson"
]

_TRAITS = Traits(
    reads=("table",),
    trained_by="library",
    rounds="max_trees",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    reads_files=False,
    table=replace(
        TREE_COLUMNS,
        categorical=("codes", "CatBoost computes statistics of the target itself"),
    ),
    predicts=EVERYTHING,
)


class CatBoost(BoostedTrees):
    """Gradient-boosted trees by CatBoost (Prokhorenkova et al. 2018, arXiv:1706.09516): symmetric
    trees, and categories as ordered statistics of the target, alone and in pairs. Needs the extra
    `catboost`. Strong where categories say much, and slower than other boosting. Its trees are not
    kept while they grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["catboost"]

    objective: Auto | CatBoostObjective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae, `mape` for mape,
    `quantile` (the one of `metric.quantile`) for pinball, `poisson` for poisson_deviance and rmsle,
    `squared_error` for other metrics of numbers, `log_loss` for classes. `poisson` is for
    counts."""

    depth: Annotated[int, Field(ge=1, le=12)] = 6
    """Splits between the root and each leaf; a tree has 2 ** depth leaves."""

    lambda_l2: NonNegative = 3.0
    """L2 penalty on leaf values."""
