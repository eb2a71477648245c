"""Rules on what goes together: the kind of data, the model, the task and the loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from trainwright.contract.document import Contract
from trainwright.contract.sections.data import ColumnSplit, Data, FileSplit, TableData, fold_count
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.model import Gpt, Pretrained
from trainwright.contract.sections.objective import LOSSES_OF_CLASSES, AutoLoss, CrossEntropy
from trainwright.contract.sections.sampling import Mixture
from trainwright.contract.sections.tokens import TokenData
from trainwright.core.errors import Problem

_MODELS = {
    "table": ("boosting", "linear", "mlp", "tabular_resnet"),
    "images": ("boosting", "linear", "resnet"),
    "tokens": ("gpt",),
}
_TASKS = {
    "table": ("classification", "regression"),
    "images": ("classification",),
    "tokens": ("generation",),
}


def model_reads_data(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The model can read what the data section gives."""
    kind, model = contract.data.kind, contract.model
    fitting = _MODELS[kind]
    if isinstance(model, Pretrained) or model.kind in fitting:
        return
    yield Problem(
        f"a model of kind {model.kind} cannot read data of kind {kind}",
        path="model.kind",
        found=model.kind,
        expected=f"one of: {', '.join(fitting)}",
        fix=f"choose {fitting[-1]}, or change data.kind",
    )


def task_fits_data(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The task can be learned from the kind of data."""
    kind, task = contract.data.kind, contract.task
    if task in ("auto", "ranking", "retrieval") or task in _TASKS[kind]:
        return
    yield Problem(
        f"data of kind {kind} has no {task}",
        path="task",
        found=task,
        expected=f"one of: {', '.join(_TASKS[kind])}",
        fix="change task, or data.kind",
    )


def loss_fits_task(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Losses of classes and of numbers are not exchanged."""
    loss = contract.training.loss
    known = _TASKS[contract.data.kind]
    task = known[0] if len(known) == 1 else str(contract.task)
    if isinstance(loss, AutoLoss) or task not in ("classification", "regression", "generation"):
        return
    of_classes = isinstance(loss, LOSSES_OF_CLASSES)
    if of_classes == (task == "regression"):
        fitting = "mse, mae, huber or quantile" if task == "regression" else "cross_entropy"
        yield Problem(
            f"{loss.name} is no loss of a {task}",
            path="training.loss.name",
            found=loss.name,
            expected=fitting,
            fix="change it, or remove training.loss",
        )
    if task == "generation" and isinstance(loss, CrossEntropy) and loss.class_weights != "none":
        yield Problem(
            "tokens are not weighed",
            path="training.loss.class_weights",
            found=loss.class_weights,
            expected="none",
            fix="remove class_weights",
        )


def heads_divide_width(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Every head of a transformer gets as many features, and an even number of them."""
    model = contract.model
    if not isinstance(model, Gpt):
        return
    wanted = 2 * model.heads
    if model.width % wanted:
        yield Problem(
            f"model.width {model.width} is not a multiple of twice model.heads",
            path="model.width",
            found=str(model.width),
            expected=f"a multiple of {wanted}",
            fix=f"change it to {max(1, round(model.width / wanted)) * wanted}",
        )


def shares_leave_rows(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Every part that is divided off gets rows, and so does the training."""
    section, shares = _shares(contract.data)
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


def _shares(data: Data) -> tuple[str, dict[str, float]]:
    """Where the shares of the parts stand, and those that are divided off."""
    match data:
        case TableData():
            split = data.split
            if isinstance(split, ColumnSplit | FileSplit):
                return "data.split", {}
            shares = {"validation": split.validation} if not data.val_path else {}
            if fold_count(data):
                return "data.split", shares
            return "data.split", shares | ({"test": split.test} if not data.test_path else {})
        case ImageData():
            shares = {"validation": data.validation} if not data.val_path else {}
            if fold_count(data):
                return "data", shares
            return "data", shares | ({"test": data.test} if not data.test_path else {})
        case TokenData():
            return "data", {"validation": data.validation, "test": data.test}
        case _:
            assert_never(data)


def images_in_folds_stand_together(
    contract: Contract, _written: frozenset[str]
) -> Iterator[Problem]:
    """Every image is tested once in its fold."""
    data = contract.data
    if isinstance(data, ImageData) and fold_count(data) and (data.val_path or data.test_path):
        yield Problem(
            "every image is tested once in its fold, so no part stands apart",
            path="data.split.folds",
            found="folds beside data.val_path or data.test_path",
            fix="remove folds, or the path",
        )


def slices_have_columns(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Images have one column to slice by, their label; a text has its position, and, where it is
    mixed, its source."""
    known: tuple[str, ...]
    match contract.data:
        case TableData():
            return
        case ImageData():
            known = ("label",)
        case TokenData(sampling=Mixture()):
            known = ("source", "position", "tokens")
        case TokenData():
            known = ("position", "tokens")
        case _:
            assert_never(contract.data)
    for at, part in enumerate(contract.slices):
        if part.column and part.column not in known:
            yield Problem(
                f"data of kind {contract.data.kind} has no column {part.column!r}",
                path=f"slices.{at}.column",
                found=part.column,
                expected=f"one of: {', '.join(known)}",
                fix=f"change it to {known[0]}",
            )


KIND_RULES = (
    model_reads_data,
    task_fits_data,
    loss_fits_task,
    heads_divide_width,
    shares_leave_rows,
    images_in_folds_stand_together,
    slices_have_columns,
)
"""All of them, for the list of rules."""
