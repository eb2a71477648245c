"""The target of prepared rows as a contract asks for it: a number, a count, quantiles, or classes
whose errors have costs; and a metric that has no value on the test or validation rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.rules.target.regression_rules import asks_for_counts
from trainwright.contract.sections.metric import METRICS_OF_COUNTS
from trainwright.contract.sections.training.training import EarlyStopping
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.base.messages import quoted, some
from trainwright.data.types import Prepared
from trainwright.evaluation.evaluation_warnings import why_undefined

_INSTEAD = {"r2": "rmse", "mape": "mae", "mase": "mae", "scaled_pinball": "pinball"}
"""Metrics that have a value where these have none; of classes it is the log loss."""


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


def problems_of_metric(prepared: Prepared, contract: Contract) -> list[Problem]:
    """The contract's metric has a value on the test rows."""
    metric = contract.metric.name
    why = why_undefined(metric, prepared.test, prepared.target)
    text = f"{metric} has no value on {many(len(prepared.test), 'test row')}: {why}"
    fix = f"write metric.name: {_INSTEAD.get(metric, 'log_loss')}, or choose other test rows"
    return [Problem(text, path="metric.name", fix=fix)] if why else []


def watch_defined(contract: Contract, prepared: Prepared) -> tuple[Contract, str]:
    """The contract, whose early stopping watches the loss where the validation rows give its metric
    no value, and what is said of that. The mean F1 of classes of which one has no such row jumps
    with the first row that is taken for it; the loss of one constant is least for a constant."""
    training = contract.training
    stopping = training.early_stopping
    if contract.model.traits.trained_by != "loop" or not isinstance(stopping, EarlyStopping):
        return contract, ""
    part, target = prepared.validation, prepared.target
    metric = stopping.metric.removeprefix("val_")
    why = why_undefined(metric, part, target)
    if metric == "f1_macro" and part.target.ndim == 1 and len(part):
        absent = np.setdiff1d(np.arange(len(target.classes)), part.target)
        why = f"none is {target.classes[int(absent[0])]!r}" if len(absent) else ""
    if not why:
        return contract, ""
    watching = stopping.model_copy(update={"metric": "val_loss", "mode": "min"})
    saving, ranking = training.checkpointing, {"rank_by": "val_loss"}
    changes = {
        "early_stopping": "off" if metric == "r2" else watching,
        "checkpointing": saving.model_copy(
            update=ranking if saving.rank_by == stopping.metric else {}
        ),
        "stop": training.stop.model_copy(update={"target_reached": "off"}),
    }
    training = training.model_copy(update=changes)
    rows = many(len(part), "validation row")
    instead = "all steps are made" if metric == "r2" else "val_loss is watched in its place"
    note = f"{stopping.metric} says nothing of {rows} ({why}): {instead}"
    return contract.model_copy(update={"training": training}), note


def compare_by_defined(contract: Contract, prepared: Prepared) -> tuple[Contract, str]:
    """The contract by which candidates are compared on the validation rows, with another metric
    where these give its own no value, and what is said of that."""
    metric = contract.metric
    why = why_undefined(metric.name, prepared.validation, prepared.target)
    if not why:
        return contract, ""
    metric = metric.model_copy(update={"name": _INSTEAD.get(metric.name, "log_loss")})
    note = f"{contract.metric.name} has no value on the validation rows ({why}): {metric.name} is"
    return contract.model_copy(update={"metric": metric}), f"{note} compared in its place"
