"""`model` of kind `forest`: random forests and extremely randomised trees."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import (
    ModelSection,
    Monotone,
    TableDefaults,
    Traits,
)
from trainwright.contract.sections.section import Auto, Count

_ANY_SCALE = "trees split on any scale, and on missing itself"

_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    unit="tree",
    training_keys=frozenset({"training.seeds"}),
    reads_missing=True,
    reads_files=False,
    table=TableDefaults(
        numeric=("none", _ANY_SCALE),
        impute=("none", _ANY_SCALE),
        categorical=("by_count", "trees need help with a column of many categories"),
        reduce=("svd", "a tree that looks at few columns finds few of many terms"),
    ),
)


class Forest(ModelSection):
    """The mean of many deep trees, each grown on its own (scikit-learn). Hardly depends on its
    settings, uses no validation rows, and predicts from arrays without scikit-learn. A fit that is
    killed starts again."""

    traits: ClassVar[Traits] = _TRAITS

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

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    monotone: Monotone = Field(default_factory=dict)
    """Numeric columns in which the prediction never falls (`increasing`) or never rises
    (`decreasing`), other columns being equal: a number, or the probability of the positive class of
    two."""

    @property
    def monotone_columns(self) -> Monotone:
        """See `monotone`."""
        return self.monotone
