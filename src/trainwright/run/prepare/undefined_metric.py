"""A metric that has no value on the test or validation rows, known before the training."""

from __future__ import annotations

import numpy as np

from trainwright.contract.document import Contract
from trainwright.contract.sections.training.training import EarlyStopping
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.types import Prepared
from trainwright.evaluation.metrics.undefined_metrics import why_undefined

_INSTEAD = {"r2": "rmse", "mape": "mae", "mase": "mae", "scaled_pinball": "pinball"}


def metric_problems(prepared: Prepared, contract: Contract) -> list[Problem]:
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
