"""Rules on what goes together: the kind of data, the model, the task, the loss and the training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS, NUMERIC_TASKS
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
from trainwright.contract.sections.training.training import OF_EVERY_MODEL
from trainwright.core.errors import Problem

if TYPE_CHECKING:
    from trainwright.contract.sections.data.chats import PreferenceData


def has_base(
    contract: Contract, _data: PreferenceData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Preferences are measured against the model that the training starts from."""
    if not contract.model.has_base:
        yield Problem(
            "preferences are learned from a base, which knows how to answer",
            path="model.architecture",
            found="a model of random weights",
            expected="a folder or a model of the hub",
            fix="fine-tune a model on chats, export it by trainwright weights export RUN --to "
            "huggingface -o base, and name the folder in model.architecture",
        )


def pairs_have_dpo(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Pairs of answers have a loss of their own, and it has no other data."""
    loss, is_paired = contract.training.loss, contract.data.is_paired
    if isinstance(loss, AutoLoss) or isinstance(loss, Dpo) == is_paired:
        return
    yield Problem(
        f"{loss.name} is no loss of preferences" if is_paired else "dpo is a loss of preferences",
        path="training.loss.name",
        found=loss.name,
        expected="dpo" if is_paired else "data.kind: preferences beside it",
        fix="remove training.loss",
    )


def pairs_have_metrics(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Metrics of pairs are of preferences, those of tokens of texts."""
    named = [("metric.name", contract.metric.name)]
    named += [(f"slices.{at}.metric", one.metric) for at, one in enumerate(contract.slices)]
    stopping = contract.training.early_stopping
    if stopping != "off":
        watched = stopping.metric.removeprefix("val_")
        named.append(("training.early_stopping.metric", watched))
    unfit = "tokens" if contract.data.is_paired else "pairs"
    own = "pairs" if contract.data.is_paired else "tokens"
    fitting = [name for name, fact in METRICS.items() if fact.of == own]
    for path, name in named:
        if (
            name in METRICS
            and METRICS[name].of == unfit
            and contract.data.possible_tasks == ("generation",)
        ):
            prefix = "val_" if path.startswith("training.") else ""
            yield Problem(
                f"{name} is no metric of data of kind {contract.data.kind}",
                path=path,
                found=prefix + name,
                expected=f"one of: {', '.join(prefix + one for one in fitting)}",
                fix=f"change it to {prefix}{fitting[0]}",
            )


PREFERENCE_RULES = (has_base,)
"""Those of the data, for the list of rules."""


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


def training_has_effect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Libraries do not fit by the loop that `training` describes; trees have a seed, which linear
    models do not, and are kept by the clock. A section without keys says nothing."""
    traits = contract.model.traits
    if traits.trained_by != "library" or "training" not in written:
        return
    of_training = {path for path in written if path.startswith("training.")}
    without = {
        path for path in of_training - traits.training_keys if _key(path) not in OF_EVERY_MODEL
    }
    if without:
        kept = ", and how often they are kept" if len(traits.training_keys) > 1 else ""
        also = f"; of {traits.unit}s seeds{kept}"
        network = kinds_with(lambda one: one.trained_by == "loop")[0]
        yield Problem(
            f"training has no effect on a model of kind {contract.model.kind}",
            path="training",
            found=", ".join(sorted({_key(path) for path in without})),
            expected=f"training only where model.kind is a network, such as {network}"
            f"{also if traits.training_keys else ''}",
            fix=f"remove training, or change model.kind to {network}",
        )


def _key(path: str) -> str:
    """The key of `training` that a path lies in; of checkpointing, which trees have too, the path
    itself."""
    of_checkpointing = path.startswith("training.checkpointing.")
    return path if of_checkpointing else ".".join(path.split(".")[:2])
