"""Checks of a plan for boosted trees."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import Boosting
from trainwright.core.errors import Problem
from trainwright.core.formatting import show_number
from trainwright.data.types import Prepared


def problems_with_objective(contract: Contract) -> Iterator[Problem]:
    """The loss must match the task; for a resolved contract."""
    model = contract.model
    if not isinstance(model, Boosting):
        return
    of_classes = contract.task == "classification"
    if (model.objective == "log_loss") != of_classes:
        yield Problem(
            f"{model.objective} is no loss of a {contract.task}",
            path="model.objective",
            found=model.objective,
            expected="log_loss" if of_classes else "a loss of numbers, for example squared_error",
            fix="remove it",
        )
    if model.class_weights != "none" and not of_classes:
        yield Problem(
            "class_weights are for classes, and the target is a number",
            path="model.class_weights",
            found=model.class_weights,
            fix="remove class_weights",
        )


def problems_with_counts(contract: Contract, prepared: Prepared) -> Iterator[Problem]:
    """Counts must not be negative, nor all 0."""
    model = contract.model
    if not isinstance(model, Boosting) or model.objective != "poisson":
        return
    values = prepared.train.target
    if values.min() < 0 or not values.any():
        yield Problem(
            "poisson is for counts",
            path="model.objective",
            found=f"targets from {show_number(values.min())} to {show_number(values.max())}",
            expected="no target below 0, and some above",
            fix="use objective: squared_error",
        )
