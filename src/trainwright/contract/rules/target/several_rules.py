"""Rules on several targets of a table: numbers, or labels."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Balanced, Feeding
from trainwright.contract.sections.data.split import StratifiedGroupSplit, StratifiedSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import (
    AbsoluteError,
    AutoLoss,
    BinaryCrossEntropy,
    Huber,
    SquaredError,
)
from trainwright.core.errors import Problem

_TARGET, _SEPARATOR = "data.target", "data.labels.separator"


def targets_are_named(
    contract: Contract, data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """Several targets are several columns, each once, or the labels of one."""
    names, separator = data.target_columns, data.labels.separator
    if not isinstance(data.target, str):
        if len(names) < 2 or len(set(names)) < len(names):
            yield Problem(
                "a list of targets names at least two columns, each once",
                path=_TARGET,
                found=f"[{', '.join(names)}]",
                expected="different columns, or one column without brackets",
                fix="name each column once, and a single one without brackets",
            )
        if separator:
            yield Problem(
                "labels stand in one column, or each in a column of its own",
                path=_SEPARATOR,
                found=f"{separator!r} beside {len(names)} columns",
                expected="one of the two",
                fix="remove data.labels",
            )
    elif data.labels.empty == "none" and not separator:
        yield Problem(
            "only a column of labels has cells without any",
            path="data.labels.empty",
            found="none, without data.labels.separator",
            expected="a separator of the labels, or missing",
            fix='write data.labels: {separator: ";"}, or remove data.labels',
        )
    elif contract.task == "multilabel" and not separator:
        yield Problem(
            "the labels of a row stand in several columns, or in one with a separator",
            path=_TARGET if "data.target" in written else "task",
            found=f"the column {data.target!r}",
            expected="a list of columns, or what stands between two labels of a cell",
            fix='write data.labels: {separator: ";"}, or task: classification',
        )


def task_has_several(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Several targets are numbers or labels."""
    if not data.has_several_targets or contract.task in ("auto", "multilabel"):
        return
    if contract.task == "regression" and not data.labels.separator:
        return
    several = "labels" if data.labels.separator else f"{len(data.target_columns)} targets"
    yield Problem(
        f"a {contract.task} has one target",
        path="task",
        found=f"{several}, and task {contract.task}",
        expected="multilabel" if data.labels.separator else "regression or multilabel",
        fix="write task: multilabel, or name one column in data.target",
    )


def model_predicts_several(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """The family predicts several values of a row."""
    if not data.has_several_targets:
        return
    model, form = contract.model, data.form
    what = "labels" if may_be_labels(contract, data) else "targets"
    if {"targets", "labels"} <= model.traits.predicts:
        return
    fitting = kinds_with(lambda one: {"targets", "labels"} <= one.predicts and form in one.reads)
    yield Problem(
        f"a model of kind {model.kind} predicts one value of a row, not several {what}",
        path="model.kind",
        found=model.kind,
        expected=f"one of: {', '.join(fitting)}",
        fix=f"choose {fitting[0]}, or name one column in data.target",
    )


def may_be_labels(contract: Contract, data: Feeding) -> bool:
    """Are labels predicted, as far as the contract says?"""
    return contract.task == "multilabel" or data.has_label_lists


def metrics_have_several(
    contract: Contract, data: Feeding, _written: frozenset[str]
) -> Iterator[Problem]:
    """A metric of one number or of classes is none of several."""
    if not data.has_several_targets:
        return
    usual = "average_precision" if may_be_labels(contract, data) else "r2"
    for path, name in contract.named_metrics:
        if name in METRICS and not METRICS[name].of_several:
            yield Problem(
                f"{name} is a metric of one target",
                path=path,
                found=name,
                expected=f"one of: {', '.join(_of_several(contract, data))}",
                fix=f"write metric.name: {usual}"
                if path == "metric.name"
                else f"write {'val_' if 'stopping' in path else ''}{usual}",
            )
    if contract.metric.costs:
        yield Problem(
            "costs are those of the classes of one target",
            path="metric.costs",
            found="metric.costs beside several targets",
            expected="one of the two",
            fix="remove metric.costs",
        )
    if contract.metric.quantiles:
        yield Problem(
            "quantiles are predicted of one number",
            path="metric.quantiles",
            found="metric.quantiles beside several targets",
            expected="one of the two",
            fix="remove metric.quantiles, or name one column in data.target",
        )


def _of_several(contract: Contract, data: Feeding) -> list[str]:
    task = "multilabel" if may_be_labels(contract, data) else str(contract.task)
    return [
        name
        for name, fact in METRICS.items()
        if fact.of_several and (task == "auto" or fact.is_of(task))
    ]


def rows_are_divided_freely(
    _contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Splits and samplings by the classes of one target."""
    if not data.has_several_targets:
        return
    if isinstance(data.split, StratifiedSplit):
        yield _by_classes("data.split.kind", data.split.kind, "write data.split: {kind: random}")
    if isinstance(data.split, StratifiedGroupSplit):
        column = data.split.column
        fix = f"write data.split: {{kind: group, column: {column}}}"
        yield _by_classes("data.split.kind", data.split.kind, fix)
    if isinstance(data.sampling, Balanced):
        yield _by_classes("data.sampling.kind", data.sampling.kind, "remove data.sampling")
    if data.query:
        yield Problem(
            "rows are ranked by one target",
            path="data.query",
            found=f"{data.query}, beside several targets",
            expected="one of the two",
            fix="remove data.query, or name one column in data.target",
        )


def features_know_several(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Directions, a second level, earlier rows and wrong labels are those of one target."""
    if not data.has_several_targets:
        return
    if contract.model.monotone_columns:
        yield Problem(
            "a direction is that of one target",
            path="model.monotone",
            found="model.monotone, beside several targets",
            expected="one of the two",
            fix="remove model.monotone, or name one column in data.target",
        )
    if contract.model.stacks:
        yield Problem(
            "a second level is fitted to the scores of one target",
            path="model.ensemble",
            found="stacked, beside several targets",
            expected="weighted: one weight of each candidate for all targets",
            fix="write model.ensemble: weighted, or name one column in data.target",
        )
    if data.features.history != "off":
        yield Problem(
            "earlier rows are features of a single target",
            path="data.features.history",
            found="data.features.history, beside several targets",
            expected="one of the two",
            fix="remove data.features.history, or name one column in data.target",
        )
    if data.quality.asked().get("label_error", "report") != "report":
        yield Problem(
            "wrong labels are found of a single target",
            path="data.quality.actions.label_error",
            found=data.quality.asked()["label_error"],
            expected="report",
            fix="remove the line, or name one column in data.target",
        )


def _by_classes(path: str, kind: str, fix: str) -> Problem:
    return Problem(
        f"{kind} goes by the classes of one target",
        path=path,
        found=f"{kind}, beside several targets",
        expected="a way that does not go by classes",
        fix=fix,
    )


def training_knows_several(
    contract: Contract, data: Feeding, _written: frozenset[str]
) -> Iterator[Problem]:
    """What a training does with one target alone."""
    training, loss = contract.training, contract.training.loss
    of_labels = isinstance(loss, BinaryCrossEntropy)
    if not data.has_several_targets:
        if of_labels:
            yield Problem(
                "binary_cross_entropy is the loss of several labels",
                path="training.loss.name",
                found="binary_cross_entropy",
                expected="the loss of one target",
                fix="remove training.loss",
            )
        return
    fitting = AutoLoss | SquaredError | AbsoluteError | Huber | BinaryCrossEntropy
    if contract.model.is_loop_trained and not isinstance(loss, fitting):
        yield Problem(
            f"{loss.name} is a loss of one target",
            path="training.loss.name",
            found=loss.name,
            expected="mse, mae or huber of numbers, binary_cross_entropy of labels",
            fix="remove training.loss",
        )
    if training.teacher != "none":
        yield _of_one("training.teacher", "a teacher teaches one target")
    if training.calibration not in ("none", "default"):
        yield _of_one("training.calibration", "a calibration is that of one target")
    if training.threshold != 0.5 and contract.task == "regression":
        yield _of_one("training.threshold", "a threshold decides between two classes")


def _of_one(path: str, message: str) -> Problem:
    return Problem(
        message,
        path=path,
        found=f"{path}, beside several targets",
        expected="one of the two",
        fix=f"remove {path}",
    )


SEVERAL_RULES = (
    targets_are_named,
    task_has_several,
    model_predicts_several,
    metrics_have_several,
    rows_are_divided_freely,
    features_know_several,
    training_knows_several,
)
"""All of them, for the rules of a table."""
