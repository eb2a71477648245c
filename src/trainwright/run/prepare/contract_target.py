"""The target of prepared rows as a contract asks for it: a number, a count, quantiles, or classes
whose errors have costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.regression_rules import asks_for_counts
from trainwright.contract.sections.metric import METRICS_OF_COUNTS
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.messages import quoted, some
from trainwright.data.types import Prepared


def with_contract_target(prepared: Prepared, contract: Contract) -> Prepared:
    """The same rows, with the target that a resolved contract predicts of each. The version of the
    data does not depend on it."""
    counts, quantiles = asks_for_counts(contract), contract.metric.quantiles
    target = prepared.target.as_predicted(counts=counts, quantiles=quantiles)
    if contract.metric.costs:
        target = target.with_costs(contract.metric.costs)
    return replace(prepared, target=target.with_width(contract.model.embedding_width))


def target_problems(prepared: Prepared, contract: Contract) -> list[Problem]:
    """Quantiles of classes, costs of other classes, counts below 0, and training rows without any
    count."""
    if contract.metric.costs and not prepared.target.costs:
        return [_other_costs(prepared, contract)]
    if contract.metric.quantiles and not prepared.target.quantiles:
        return [
            Problem(
                f"several quantiles are predicted of a number, not in a task of {contract.task}",
                path="metric.quantiles",
                fix="remove metric.quantiles",
            )
        ]
    return _count_problems(prepared, contract) if prepared.target.is_count else []


def _count_problems(prepared: Prepared, contract: Contract) -> list[Problem]:
    if contract.metric.name in METRICS_OF_COUNTS:
        path, what = "metric.name", contract.metric.name
        fix = "repair these rows, or write metric.name: rmse"
    else:
        path, what = "training.loss.name", "poisson"
        fix = "repair these rows, or write training.loss: {name: mse}"
    parts = (prepared.train, prepared.validation, prepared.test)
    rows = np.concatenate([part.rows[part.target < 0] for part in parts])
    if len(rows):
        least = min(float(part.target.min()) for part in parts if len(part))
        below = f"{many(len(rows), 'row has', 'rows have')} a target below 0"
        return [
            Problem(
                f"{what} is for counts, and {below}",
                path=path,
                found=f"down to {least:g}, in row {some(np.sort(rows + 1).tolist())}",
                fix=fix,
            )
        ]
    if not prepared.train.target.any():
        return [
            Problem(
                f"{what} is for counts, and every training row counts 0",
                path=path,
                fix="add rows that count something",
            )
        ]
    return []


def _other_costs(prepared: Prepared, contract: Contract) -> Problem:
    """Costs of numbers, or not of all classes."""
    names, costs = prepared.target.classes, contract.metric.costs
    if not names:
        return Problem(
            f"costs are those of taking a class for another, not of a task of {contract.task}",
            path="metric.costs",
            fix="remove metric.costs",
        )
    return Problem(
        "classes of the training rows have no costs",
        path="metric.costs",
        found=f"costs of {quoted(sorted(costs), 10)}",
        expected=f"costs of {quoted(names, 10)}",
        fix="name the classes in metric.costs as the data does",
    )
