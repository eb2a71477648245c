"""Rules on metrics and slices: known, of the task, and with values in their range."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key, nearest_word
from trainwright.contract.sections.metric import (
    BASELINE_NAMES,
    COST,
    METRICS,
    Metric,
    MetricFact,
    TaskKind,
)
from trainwright.contract.sections.training.training import EarlyStopping
from trainwright.core.errors import Problem

_OF = {
    "counts": "counts",
    "quantiles": "quantiles",
    "ranks": "ordered classes",
    "costs": "classes",
}


def check_metric(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """`metric.name` is a metric of the task."""
    if contract.metric.name != "auto":
        yield from metric_problems(contract.metric.name, "metric.name", contract.task)


def check_target(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """`metric.target` is a value that the metric can take."""
    metric = contract.metric
    if not isinstance(metric.target, str) and metric.name in METRICS:
        yield from value_problems(metric.name, metric.target, "metric.target")
    baselines = ("dummy", "linear", *contract.data.further_baselines)
    if metric.target in set(BASELINE_NAMES) - set(baselines):
        yield Problem(
            f"the run has no {metric.target} baseline",
            path="metric.target",
            expected=f"one of: {', '.join(baselines)}",
            fix="name one of them, or write every_baseline",
        )


def check_floors(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Every slice measures a metric of the task, and its floor is a value that this can take."""
    for at, part in enumerate(contract.slices):
        path = f"slices.{at}"
        name = contract.metric.name if part.metric == "auto" else part.metric
        if part.metric != "auto":
            yield from metric_problems(part.metric, f"{path}.metric", task_of(contract))
        if name in METRICS and part.floor != "none":
            yield from value_problems(name, part.floor, f"{path}.floor")


def check_watched(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Early stopping watches a measured value, in the direction in which it improves."""
    stopping = contract.training.early_stopping
    if stopping != "off":
        name = contract.metric.name if stopping.metric == "auto" else stopping.metric
        if stopping.metric != "auto":
            path = "training.early_stopping.metric"
            yield from watched_problems(stopping.metric, path, task_of(contract))
        yield from mode_problems(stopping, name.removeprefix("val_"))


def check_target_reached(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """The value that ends a run is one that what it is compared with can take."""
    training = contract.training
    stopping, target = training.early_stopping, training.stop.target_reached
    watched = "auto" if stopping == "off" else stopping.metric.removeprefix("val_")
    name = contract.metric.name if watched == "auto" else watched
    if target != "off" and name in METRICS:
        yield from value_problems(name, target, "training.stop.target_reached")


def watched_problems(watched: str, path: str, task: str) -> Iterator[Problem]:
    """`watched` is the validation loss, or `val_` and a metric of `task`."""
    if watched == "val_loss":
        return
    bare = watched.removeprefix("val_")
    if watched.startswith("val_") and bare in METRICS:
        yield from metric_problems(bare, path, task, prefix="val_")
        return
    close = nearest_word(bare, ("loss", *METRICS))
    fix = f"did you mean val_{close}?" if close else ""
    yield Problem(
        f"{watched!r} is not measured on the validation rows",
        path=path,
        found=watched,
        expected="val_loss, or val_ and a metric, for example val_f1",
        fix=fix or "write val_loss",
    )


def mode_problems(stopping: EarlyStopping, name: str) -> Iterator[Problem]:
    """`mode` is the direction in which `name`, a metric or `loss`, improves."""
    known = name == "loss" or name in METRICS
    if stopping.mode == "auto" or not known:
        return
    direction = "min" if name == "loss" else METRICS[name].direction
    if stopping.mode != direction:
        better = "less" if direction == "min" else "more"
        yield Problem(
            f"mode {stopping.mode} contradicts val_{name}, of which {better} is better",
            path="training.early_stopping.mode",
            found=stopping.mode,
            expected=direction,
            fix=f"change mode to {direction}, or remove it",
        )


def task_of(contract: Contract) -> str:
    """The task as written, else that of the data or of the metric; `auto` if none is known."""
    if len(contract.data.possible_tasks) == 1:
        return contract.data.possible_tasks[0]
    if contract.task == "auto" and contract.metric.name in METRICS:
        return METRICS[contract.metric.name].task
    return contract.task


def metric_problems(name: str, path: str, task: str, prefix: str = "") -> Iterator[Problem]:
    """`name` is a metric, and one of `task` unless that is `auto`."""
    fact = METRICS.get(name)
    if fact is None:
        close = nearest_word(name, tuple(METRICS))
        yield Problem(
            f"unknown metric {name!r}",
            path=path,
            expected=f"one of: {', '.join(METRICS)}",
            fix=f"did you mean {close}?" if close else "choose one of them",
        )
    elif task in get_args(TaskKind) and not _is_of(fact, task):
        fitting = [prefix + other for other, known in METRICS.items() if _is_of(known, task)]
        what = fact.task if fact.of == "any" else _OF.get(fact.of, fact.task)
        is_open = (
            "" if task in ("generation", "forecasting") else f", or change task to {fact.task}"
        )
        yield Problem(
            f"{name} is a metric of {what}, but the task is {task}",
            path=path,
            found=prefix + name,
            expected=f"one of: {', '.join(fitting)}",
            fix=f"choose one of them{is_open}",
        )


def _is_of(fact: MetricFact, task: str) -> bool:
    """Is it a metric of the task? A forecast is a number or its quantiles, and no rate of a
    count."""
    return fact.is_of(task) and (task != "forecasting" or fact.of in ("any", "quantiles"))


def value_problems(metric: str, value: float, path: str) -> Iterator[Problem]:
    """`value` is one that the known `metric` can take."""
    least, most = METRICS[metric].bounds
    if not least <= value <= most:
        ends = [f"of at least {least:g}"] if least > -math.inf else []
        ends += [f"of at most {most:g}"] if most < math.inf else []
        percent = least == 0 and most == 1 and 1 < value <= 100
        yield Problem(
            f"{metric} can never be {value:g}",
            path=path,
            found=f"{value:g}",
            expected=f"a number {' and '.join(ends)}",
            fix=f"did you mean {value / 100:g}?" if percent else "write a value it can reach",
        )


def costs_have_their_metric(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Costs decide, and are what is measured; the metric has them."""
    metric, path = contract.metric, "training.threshold"
    if not metric.costs:
        yield from _without_costs(contract)
        return
    if metric.name not in ("auto", COST):
        yield Problem(
            f"costs decide for the least cost, and {metric.name} measures something else",
            path="metric.name",
            found=f"{metric.name} beside metric.costs",
            expected=COST,
            fix=f"write metric.name: {COST}, or remove metric.costs",
        )
    if path in written and contract.training.threshold != "auto":
        yield Problem(
            "metric.costs decide from which probability on a row is positive",
            path=path,
            found=str(contract.training.threshold),
            expected="no threshold beside metric.costs",
            fix="remove training.threshold",
        )


def _without_costs(contract: Contract) -> Iterator[Problem]:
    for path, name in contract.named_metrics:
        if name == COST:
            yield Problem(
                "what an error costs is not said",
                path=path,
                expected="metric.costs, or a metric of any classes",
                fix="say in metric.costs what each error costs, or write here f1_macro",
            )


def costs_are_complete(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Every pair of different classes has a cost, and being right is cheaper than being wrong
    (Elkan 2001, section 1.1): else one class is the cheapest whatever a model says."""
    costs = contract.metric.costs
    named = {*costs, *(name for row in costs.values() for name in row)}
    names = sorted(named)
    pairs = ((true, said) for true in names for said in names if true != said)
    lacking = [f"{true}: {said}" for true, said in pairs if said not in costs.get(true, {})]
    if costs and (lacking or len(names) < 2):
        yield Problem(
            "each class needs the cost of being taken for each other one",
            path="metric.costs",
            found=f"no cost of {', '.join(lacking[:6])}" if lacking else f"only {names[0]}",
            expected="{true: {predicted: cost}} for all pairs of different classes",
            fix="add the costs that are missing",
        )
        return
    for true in names:
        yield from _cheap_errors(true, contract.metric)


def _cheap_errors(true: str, metric: Metric) -> Iterator[Problem]:
    row = metric.costs[true]
    right = row.get(true, 0.0)
    cheap = [said for said, cost in row.items() if said != true and cost <= right]
    if cheap:
        yield Problem(
            f"taking {true!r} for {cheap[0]!r} costs no more than being right",
            path=f"metric.costs.{as_key(true)}",
            found=f"{row[cheap[0]]:g}, and {right:g} for the right class",
            expected="a right prediction that costs less than a wrong one",
            fix=f"raise metric.costs.{as_key(true)}.{as_key(cheap[0])}",
        )


METRIC_RULES = (
    check_metric,
    check_target,
    check_watched,
    check_target_reached,
    check_floors,
    costs_have_their_metric,
    costs_are_complete,
)
"""All of them, for the list of rules."""


def slices_are_named(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Each slice says one way which rows it means, and no two have the same name."""
    names = Counter[str]()
    for at, part in enumerate(contract.slices):
        if bool(part.column) == bool(part.where):
            yield Problem(
                "a slice has either a column or a condition",
                path=f"slices.{at}",
                found="both" if part.column else "neither",
                expected="column or where",
                fix="keep one of the two" if part.column else "add for example: column: region",
            )
        if part.name and part.column and not part.where:
            yield Problem(
                "the slices of a column are named by its values",
                path=f"slices.{at}.name",
                expected="name only beside where",
                fix="remove name",
            )
        name = (part.name or part.where) if part.where else f"{part.column}=<value>"
        names[name] += 1
        if names[name] == 2 and (part.column or part.where):
            yield Problem(
                f"two slices are called {name!r}",
                path=f"slices.{at}",
                fix="remove one, or give it a name of its own",
            )
