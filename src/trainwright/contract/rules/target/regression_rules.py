"""Rules on what is predicted of a number: the rate of a count, several quantiles, an ordered
class."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import (
    METRICS_OF_COUNTS,
    METRICS_OF_QUANTILES,
    METRICS_OF_RANKS,
    NUMERIC_TASKS,
    ONE_SIDED,
)
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import AutoLoss, Ordinal, Poisson, Quantile
from trainwright.core.errors import Problem

_EXAMPLE = "[0.05, 0.5, 0.95]"
_FIRST = "name the classes from the lowest to the highest in data.order"


def asks_for_counts(contract: Contract) -> bool:
    """Is the target a count, whose rate is predicted? Its metric or its loss says so."""
    if not _may_be_count(contract):
        return False
    is_counted = isinstance(contract.training.loss, Poisson) and contract.model.is_loop_trained
    return is_counted or contract.metric.name in METRICS_OF_COUNTS


def _may_be_count(contract: Contract) -> bool:
    """Forecasts are numbers, too, but no rates."""
    return "regression" in contract.data.possible_tasks


def _may_be_number(contract: Contract) -> bool:
    return any(task in contract.data.possible_tasks for task in NUMERIC_TASKS)


def model_predicts_counts(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A mean of counts may be 0, whose deviance from a count is infinite."""
    name, model = contract.metric.name, contract.model
    if not asks_for_counts(contract) or "counts" in model.traits.predicts:
        return
    form = contract.data.form
    fitting = kinds_with(lambda one: "counts" in one.predicts and form in one.reads)
    yield Problem(
        f"a model of kind {model.kind} predicts no rates, which {name} needs above 0",
        path="model.kind",
        found=model.kind,
        expected=f"one of: {', '.join(fitting)}",
        fix=f"choose {fitting[0]}, or write metric.name: mae",
    )


def loss_learns_rates(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A network predicts rates above 0 only by a loss with a log link."""
    loss, name = contract.training.loss, contract.metric.name
    if not (asks_for_counts(contract) and contract.model.is_loop_trained):
        return
    if not isinstance(loss, AutoLoss | Poisson):
        yield Problem(
            f"{loss.name} may predict rates below 0, which have no {name}",
            path="training.loss.name",
            found=loss.name,
            expected="poisson",
            fix="change it to poisson, or remove training.loss",
        )


def metrics_of_counts_are_measured(
    contract: Contract, _written: frozenset[str]
) -> Iterator[Problem]:
    """A slice or early stopping measures rates only where the model predicts them."""
    if asks_for_counts(contract) or not _may_be_count(contract):
        return
    for path, name in contract.named_metrics:
        if name in METRICS_OF_COUNTS:
            yield Problem(
                f"{name} is of models of counts, whose predictions are above 0",
                path=path,
                found=name,
                expected="a metric of any number, or metric.name poisson_deviance",
                fix=f"write metric.name: {name}, or here mae",
            )


def quantiles_ascend(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The median, which is the prediction, lies between a lower and an upper quantile."""
    quantiles = contract.metric.quantiles
    if not (quantiles and _may_be_number(contract)):
        return
    is_ascending = all(low < high for low, high in pairwise(quantiles))
    if not (is_ascending and quantiles[0] < 0.5 < quantiles[-1] and 0.5 in quantiles):
        yield Problem(
            "the median must lie among ascending quantiles, with one below it and one above",
            path="metric.quantiles",
            found=f"[{', '.join(f'{one:g}' for one in quantiles)}]",
            expected=f"for example {_EXAMPLE}",
            fix=f"write metric.quantiles: {_EXAMPLE}",
        )
    if "metric.quantile" in written:
        yield Problem(
            "metric.quantile is of a model that predicts one number",
            path="metric.quantile",
            found=f"{contract.metric.quantile:g} beside metric.quantiles",
            expected="one of the two",
            fix="remove metric.quantile",
        )
    if asks_for_counts(contract):
        yield Problem(
            "the rate of a count has no quantiles",
            path="metric.quantiles",
            found=f"metric.name {contract.metric.name}",
            expected="a metric of quantiles, or a rate alone",
            fix="write metric.name: pinball, or remove metric.quantiles",
        )


def quantiles_are_of_numbers(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Data that has no task of regression has no quantiles."""
    if contract.metric.quantiles and not _may_be_number(contract):
        (task, *_) = contract.data.possible_tasks
        yield Problem(
            f"several quantiles are predicted of a number, not in a task of {task}",
            path="metric.quantiles",
            found=f"data.kind {contract.data.kind}",
            expected="a table or series, and a number as target",
            fix="remove metric.quantiles",
        )


def model_predicts_quantiles(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The family has quantiles, and a network the loss that learns them."""
    model, loss = contract.model, contract.training.loss
    if not (contract.metric.quantiles and _may_be_number(contract)):
        return
    if "quantiles" not in model.traits.predicts:
        form = contract.data.form
        fitting = kinds_with(lambda one: "quantiles" in one.predicts and form in one.reads)
        yield Problem(
            f"a model of kind {model.kind} predicts no quantiles",
            path="model.kind",
            found=model.kind,
            expected=f"one of: {', '.join(fitting)}",
            fix=f"choose {fitting[0]}, or remove metric.quantiles",
        )
    if model.is_loop_trained and not isinstance(loss, AutoLoss | Quantile):
        yield Problem(
            f"{loss.name} learns no quantiles",
            path="training.loss.name",
            found=loss.name,
            expected="quantile",
            fix="remove training.loss",
        )


def intervals_are_predicted(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A metric of intervals needs quantiles; a clause of one a number, which no baseline gives."""
    metric = contract.metric
    if not _may_be_number(contract):
        return
    for path, name in contract.named_metrics:
        if name in METRICS_OF_QUANTILES and not metric.quantiles:
            yield Problem(
                f"{name} is of models that predict quantiles",
                path=path,
                found=name,
                expected=f"metric.quantiles, for example {_EXAMPLE}",
                fix=f"write metric.quantiles: {_EXAMPLE}",
            )
    if metric.name in ONE_SIDED and isinstance(metric.target, str):
        yield Problem(
            f"a baseline may have any {metric.name}: to be above it proves nothing",
            path="metric.target",
            found=metric.target,
            expected="a number",
            fix=f"write metric.target: {0.9 if metric.name == 'coverage' else 10}, or metric.name: "
            "interval_score",
        )


REGRESSION_RULES = (
    model_predicts_counts,
    loss_learns_rates,
    metrics_of_counts_are_measured,
    quantiles_ascend,
    quantiles_are_of_numbers,
    model_predicts_quantiles,
    intervals_are_predicted,
)
"""All of them, for the list of rules."""


def order_names_classes(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """An order has two classes or more, each once, and a task of classes."""
    order = contract.data.class_order
    if not order:
        return
    if len(order) < 2 or len(set(order)) < len(order):
        yield Problem(
            "an order names at least two classes, each once",
            path="data.order",
            found=f"[{', '.join(order)}]",
            expected="the classes from the lowest to the highest",
            fix=f"{_FIRST}, each once",
        )
    if contract.task in ("regression", "ranking", "multilabel"):
        yield Problem(
            "numbers have an order of their own",
            path="data.order",
            found=f"data.order beside task: {contract.task}",
            expected="ordered classes, or numbers",
            fix="remove data.order, or write task: classification",
        )


def ranks_need_an_order(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Metrics and the loss of ranks are those of ordered classes."""
    if contract.data.class_order or "classification" not in contract.data.possible_tasks:
        return
    for path, name in contract.named_metrics:
        if name in METRICS_OF_RANKS:
            yield Problem(
                f"{name} is of classes with an order",
                path=path,
                found=name,
                expected="data.order, or a metric of any classes",
                fix=f"{_FIRST}, or write here f1_macro",
            )
    if isinstance(contract.training.loss, Ordinal) and contract.model.is_loop_trained:
        yield Problem(
            "the ordinal loss is of classes with an order",
            path="training.loss.name",
            found="ordinal",
            expected="data.order, or cross_entropy",
            fix=f"{_FIRST}, or remove training.loss",
        )


ORDER_RULES = (order_names_classes, ranks_need_an_order)
"""All of them, for the list of rules."""
