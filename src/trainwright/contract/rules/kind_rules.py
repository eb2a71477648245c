"""Rules on what goes together: the kind of data, the model, the task and the loss."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.preference_rules import pairs_have_dpo, pairs_have_metrics
from trainwright.contract.sections.metric import NUMERIC_TASKS
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import (
    LOSSES_OF_CLASSES,
    LOSSES_OF_QUERIES,
    AutoLoss,
    BinaryCrossEntropy,
    CrossEntropy,
    Dpo,
    Poisson,
)
from trainwright.core.errors import Problem


def model_reads_data(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The model can read what the data section gives."""
    kind, form, model = contract.data.kind, contract.data.form, contract.model
    if form in model.traits.reads:
        return
    fitting = kinds_with(lambda traits: form in traits.reads)
    complete = kinds_with(lambda traits: form in traits.reads and not traits.needs_files)
    yield Problem(
        f"a model of kind {model.kind} cannot read data of kind {kind}",
        path="model.kind",
        found=model.kind,
        expected=f"one of: {', '.join(fitting)}",
        fix=f"choose {complete[-1]}, or change data.kind",
    )


def task_fits_data(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The task can be learned from the kind of data."""
    kind, task, tasks = contract.data.kind, contract.task, contract.data.possible_tasks
    if task == "auto" or task in tasks:
        return
    if task in contract.data.tasks and task == "multilabel":
        return  # its kind of data says what is missing
    yield Problem(
        f"data of kind {kind} has no {task}",
        path="task",
        found=task,
        expected=f"one of: {', '.join(tasks)}",
        fix="change task, or data.kind",
    )


def loss_fits_task(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Losses of classes and of numbers are not exchanged."""
    loss = contract.training.loss
    known = contract.data.possible_tasks
    task = known[0] if len(known) == 1 else str(contract.task)
    if isinstance(loss, AutoLoss | LOSSES_OF_QUERIES | Dpo):
        return
    if task not in ("classification", "regression", "generation", "forecasting", "multilabel"):
        return
    if task == "multilabel":
        if not isinstance(loss, BinaryCrossEntropy):
            yield _wrong_loss(loss.name, task, "binary_cross_entropy")
        return
    of_classes = isinstance(loss, LOSSES_OF_CLASSES)
    of_numbers = task in NUMERIC_TASKS
    of_rates = isinstance(loss, Poisson) and task == "forecasting"
    of_labels = isinstance(loss, BinaryCrossEntropy)
    if of_classes == of_numbers or of_rates or of_labels:
        last = "huber or quantile" if task == "forecasting" else "huber, quantile or poisson"
        numeric = f"mse, mae, {last}"
        yield _wrong_loss(loss.name, task, numeric if of_numbers else "cross_entropy")
    if task == "generation" and isinstance(loss, CrossEntropy) and loss.class_weights != "none":
        yield Problem(
            "tokens are not weighed",
            path="training.loss.class_weights",
            found=loss.class_weights,
            expected="none",
            fix="remove class_weights",
        )


def _wrong_loss(name: str, task: str, fitting: str) -> Problem:
    return Problem(
        f"{name} is no loss for {task}",
        path="training.loss.name",
        found=name,
        expected=fitting,
        fix="change it, or remove training.loss",
    )


def model_is_consistent(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The fields of the model do not contradict each other."""
    yield from contract.model.own_problems()


def check_bagging(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Folds of training and validation rows would train on later rows than they hold out."""
    bagging = contract.model.bagging_folds
    if bagging not in ("auto", "off") and contract.data.follows_time:
        yield Problem(
            "folds of rows that are divided by time would train on later rows than they hold out",
            path="model.bagging",
            found=str(bagging),
            expected="off, or auto",
            fix="remove bagging",
        )


def check_stack(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A second level predicts probabilities, a rate or a mean."""
    if contract.model.stacks and contract.metric.quantiles:
        yield Problem(
            "a second level predicts one number, not several quantiles",
            path="model.ensemble",
            found="stacked, beside metric.quantiles",
            expected="weighted, always or false",
            fix="write model.ensemble: weighted",
        )


def shares_leave_rows(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Every part that is divided off gets rows, and so does the training."""
    section, shares = contract.data.part_shares
    for part, share in shares.items():
        if share == 0:
            yield Problem(
                f"the {part} part gets no rows",
                path=f"{section}.{part}",
                found="0",
                expected="a number above 0 and below 1",
                fix="write for example 0.15",
            )
    if sum(shares.values()) >= 1:
        yield Problem(
            "no rows are left to train on",
            path=section,
            found=" + ".join(f"{part} {share}" for part, share in shares.items()),
            expected="a sum below 1",
            fix="write for example 0.15 each",
        )


def slices_have_columns(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Data without columns of its own files has few columns to slice by."""
    known = contract.data.slice_columns
    for at, part in enumerate(contract.slices):
        if known and part.column and part.column not in known:
            yield Problem(
                f"data of kind {contract.data.kind} has no column {part.column!r}",
                path=f"slices.{at}.column",
                found=part.column,
                expected=f"one of: {', '.join(known)}",
                fix=f"change it to {known[0]}",
            )


KIND_RULES = (
    model_reads_data,
    pairs_have_dpo,
    pairs_have_metrics,
    task_fits_data,
    loss_fits_task,
    model_is_consistent,
    check_bagging,
    check_stack,
    shares_leave_rows,
    slices_have_columns,
)
"""All of them, for the list of rules."""
