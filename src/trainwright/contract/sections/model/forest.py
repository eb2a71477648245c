"""`model` of kind `forest`: random forests and extremely randomised trees."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from trainwright.contract.sections.model.traits import Traits
from trainwright.contract.sections.model.tree_ensemble import TREE_COLUMNS, TreeEnsemble
from trainwright.contract.sections.section import Auto, Count

_TRAITS = Traits(
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


class Forest(TreeEnsemble):
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
