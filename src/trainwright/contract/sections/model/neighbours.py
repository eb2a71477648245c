"""`model` of kind `neighbours`: k nearest neighbours."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import ModelSection, TableDefaults, Traits
from trainwright.contract.sections.section import Count

_TRAITS = Traits(
    reads=("table",),
    trained_by="library",
    reads_files=False,
    predicts=frozenset(),
    weighs_rows=False,
    table=TableDefaults(numeric=("standard", "a distance needs one scale")),
)


class Neighbours(ModelSection):
    """The mean of the nearest training rows (Cover and Hart 1967), found with a k-d tree (scipy): a
    reference for small tables, where it learns nothing and remembers all. Two different values of a
    category are one standard deviation apart. The bundle holds the training rows, encoded: share it
    only with those who may see them."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["neighbours"]

    neighbours: Count = 15
    """Training rows that answer for a row. More are smoother."""

    weighting: Literal["uniform", "distance"] = "uniform"
    """`uniform`, each neighbour says as much; `distance`, in inverse proportion to its distance,
    and those at no distance alone where there are some."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a neighbour counts: `none`, all alike; `balanced`, rows / (classes x rows of its
    class). Probabilities are then those of balanced classes."""
