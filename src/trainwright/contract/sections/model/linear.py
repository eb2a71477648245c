"""`model` of kind `linear`: logistic and ridge regression."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.model.traits import (
    EVERYTHING,
    ModelSection,
    TableDefaults,
    Traits,
)
from trainwright.contract.sections.section import Auto, Count, NonNegative

_EVERY_TERM = "the model weighs every term"

_TRAITS = Traits(
    reads=("table", "images"),
    trained_by="library",
    reads_files=False,
    is_linear=True,
    ranks=True,
    predicts=EVERYTHING,
    table=TableDefaults(
        numeric=("standard", "a penalty needs one scale"),
        reduce=("none", _EVERY_TERM),
        terms=(20_000, "rare terms tell classes apart"),
    ),
)


class Linear(ModelSection):
    """Logistic regression for classes, ridge regression for numbers, and for counts Poisson
    regression with a log link (scikit-learn). Several quantiles are the mean, shifted by the
    quantiles of its residuals: an interval of one width for all rows."""

    traits: ClassVar[Traits] = _TRAITS

    kind: Literal["linear"]

    penalty: Auto | NonNegative = "auto"
    """L2 penalty: 1/C of the logistic regression, alpha of the ridge regression, and
    for counts half the factor of the squared weights beside the sum of the deviances / 2. `auto`:
    1, and 0.1 for classes where a column is a text."""

    class_weights: Literal["none", "balanced"] = "none"
    """How much a row counts: `none`, all alike; `balanced`, rows / (classes x rows of its class),
    so that every class has the same say. Probabilities are then those of balanced classes."""

    max_iterations: Count = 1000
    """Most iterations of the solver."""
