"""Settings that ensembles of trees have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import ModelSection, Monotone, TableDefaults
from trainwright.contract.sections.section import Count, Positive

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


class TreeEnsemble(ModelSection):
    """Base of the sections of trees."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two. Boosted trees refuse it with the objectives absolute_error, mape and quantile."""

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
