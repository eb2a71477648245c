"""`model` of kind `boosting`: gradient-boosted trees."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import EVERYTHING, Traits
from trainwright.contract.sections.model.tree_ensemble import BOOSTED_COLUMNS, BoostedTrees
from trainwright.contract.sections.section import Auto, Count, NonNegative

Objective = Literal[
    "log_loss",
    "squared_error",
    "absolute_error",
    "mape",
    "quantile",
    "poisson",
    "lambdarank",
    "rank_xendcg",
]

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
    ranks=True,
    table=BOOSTED_COLUMNS,
    predicts=EVERYTHING,
)


class Boosting(BoostedTrees):
    """Gradient-boosted trees (LightGBM). Stops adding trees when the validation value does not
    improve, and keeps the best number. The defaults are those of the benchmark of default models:
    columns and rows drawn for each tree, and a penalty on leaf values, against overfitting."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["boosting"]

    objective: Auto | Objective = "auto"
    """The loss of the trees. `auto` follows the metric: `absolute_error` for mae, `mape` for mape,
    `quantile` (the one of `metric.quantile`) for pinball, `poisson` for poisson_deviance and rmsle,
    `squared_error` for other metrics of numbers, `log_loss` for classes. `poisson` is for counts,
    whose spread grows with their mean. Of a ranking, `auto` is `lambdarank` (Burges 2010,
    MSR-TR-2010-82), with the gain of the metric; `rank_xendcg` is the listwise loss of Bruch et al.
    2021 (arXiv:1911.09798), and `squared_error` predicts the relevance of each row by itself."""

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
