"""`model` of kinds `boosting`, `xgboost`, `catboost` and `forest`: ensembles of trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import (
    EVERYTHING,
    ModelSection,
    Monotone,
    TableDefaults,
    Traits,
)
from trainwright.contract.sections.section import Auto, Count, NonNegative, Positive

_ANY_SCALE = "trees split on any scale, and on missing itself"

TREE_COLUMNS: Final = TableDefaults(
    numeric=("none", _ANY_SCALE),
    impute=("none", _ANY_SCALE),
    categorical=("by_count", "trees need help with a column of many categories"),
)
"""How columns are encoded for trees."""

BOOSTED_COLUMNS: Final = replace(
    TREE_COLUMNS,
    reduce=("none", "the model chooses among terms itself"),
    terms=(2000, "trees use few of them"),
)
"""How columns are encoded for trees that read the terms of a text."""

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
_BOOSTING_TRAITS = Traits(
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
XGBoostObjective = Literal[
    "log_loss", "squared_error", "absolute_error", "quantile", "poisson", "lambdarank"
]
_XGBOOST_TRAITS = Traits(
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
    divides_rows=True,
)
CatBoostObjective = Literal[
    "log_loss", "squared_error", "absolute_error", "mape", "quantile", "poisson"
]
_CATBOOST_TRAITS = Traits(
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
_FOREST_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    reads_files=False,
    predicts=frozenset({"targets", "labels"}),
    table=replace(
        TREE_COLUMNS,
        reduce=("svd", "a tree that looks at few columns finds few of many terms"),
    ),
)


class TreeEnsemble(ModelSection):
    """Base of the sections of trees."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two. Boosted trees refuse objectives that their library does not hold to it (quantile; of
    boosting and xgboost absolute_error and mape), and `objective: auto` takes another."""

    @property
    def monotone_columns(self) -> Monotone:
        """See `monotone`."""
        return self.monotone


class BoostedTrees(TreeEnsemble):
    """Base of the sections of trees that grow in rounds."""

    objective: str

    max_trees: Count = 2000
    """Most trees (boosting rounds) to grow."""

    early_stopping_rounds: Count = 100
    """Trees without a better validation value after which growing ends. The value is the metric for
    numbers where the library has it, else the loss: of few rows an AUC moves too little to tell."""

    learning_rate: Positive = 0.05
    """Shrinkage of each tree."""


class Boosting(BoostedTrees):
    """Gradient-boosted trees (LightGBM). Stops adding trees when the validation value does not
    improve, and keeps the best number. The defaults are those of the benchmark of default models:
    columns and rows drawn for each tree, and a penalty on leaf values, against overfitting."""

    traits: ClassVar[Traits] = _BOOSTING_TRAITS

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

    min_data_in_leaf: Auto | Count = "auto"
    """Fewest training rows in a leaf. `auto`: 20, and of fewer than 2,000 training rows a hundredth
    of them, at least 5. With fewer than 20, categories too may have fewer rows than LightGBM asks
    for: its `min_data_per_group` is 5 times as many, `cat_smooth` and `cat_l2` half as many."""

    feature_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the features that each tree may use."""

    bagging_fraction: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of the rows that each tree sees."""

    lambda_l2: NonNegative = 1.0
    """L2 penalty on leaf values."""


class XGBoost(BoostedTrees):
    """Gradient-boosted trees by XGBoost (Chen and Guestrin 2016, arXiv:1603.02754) on histograms,
    with categories as sets of codes. Needs the extra `xgboost`. Stops adding trees when the
    validation value does not improve, and keeps the best number. Its trees are not kept while they
    grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _XGBOOST_TRAITS

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


class CatBoost(BoostedTrees):
    """Gradient-boosted trees by CatBoost (Prokhorenkova et al. 2018, arXiv:1706.09516): symmetric
    trees, and categories as ordered statistics of the target, alone and in pairs. Needs the extra
    `catboost`. Strong where categories say much, and slower than other boosting. Its trees are not
    kept while they grow: a run that is killed grows them again, to the same trees."""

    traits: ClassVar[Traits] = _CATBOOST_TRAITS

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


class Forest(TreeEnsemble):
    """The mean of many deep trees, each grown on its own (scikit-learn). Hardly depends on its
    settings, uses no validation rows, and predicts from arrays without scikit-learn. A fit that is
    killed starts again."""

    traits: ClassVar[Traits] = _FOREST_TRAITS

    kind: Literal["forest"]

    method: Literal["random_forest", "extra_trees"] = "random_forest"
    """`random_forest` (Breiman 2001): each tree sees rows drawn with replacement, and takes the
    best split of some columns; `extra_trees` (Geurts et al. 2006, doi:10.1007/s10994-006-6226-1):
    all rows, and the best of one random threshold a column."""

    trees: Count = 300
    """Trees to grow. More never overfit; they cost time and room."""

    min_data_in_leaf: Count = 1
    """Fewest training rows in a leaf. Larger leaves smooth probabilities and make a smaller
    file."""

    max_depth: Literal["off"] | Count = "off"
    """Most splits between the root and a leaf."""

    feature_fraction: Auto | Literal["sqrt"] | Annotated[float, Field(gt=0, le=1)] = "auto"
    """Share of the columns that a split chooses among; `sqrt`, the square root of their number.
    `auto`: `sqrt` for classes, all for numbers."""
