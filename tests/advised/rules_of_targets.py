"""Contracts about counts, quantiles and an order that contradict themselves or their rows."""

from __future__ import annotations

from advised.cases import ROWS, Case, csv

COUNTS = csv(y=[at * 7 % 23 for at in range(ROWS)])
BELOW = csv(y=[at * 7 % 23 - 2 for at in range(ROWS)])
DEVIANCE = "metric.name=poisson_deviance"
COSTS = "metric.costs={no: {yes: 1}, yes: {no: 5}}"
QUANTILES = "metric.quantiles=[0.05, 0.5, 0.95]"

CASES = (
    Case(
        "choose boosting, or write metric.name: mae",
        (DEVIANCE, "model={kind: forest}"),
        rows=COUNTS,
        does=("model.kind=boosting",),
    ),
    Case(
        "change it to poisson, or remove training.loss",
        (DEVIANCE, "training.loss.name=mse"),
        base="network",
        rows=COUNTS,
    ),
    Case(
        "write metric.name: rmsle, or here mae",
        ("slices=[{column: word, metric: rmsle}]",),
        rows=COUNTS,
        does=("slices.0.metric=mae",),
    ),
    Case("repair these rows, or write metric.name: rmse", (DEVIANCE,), rows=BELOW),
    Case(
        "repair these rows, or write training.loss: {name: mse}",
        ("training.loss.name=poisson",),
        base="network",
        rows=BELOW,
    ),
    Case(
        "write metric.quantiles: [0.05, 0.5, 0.95]",
        ("metric={name: pinball, quantiles: [0.9, 0.1]}",),
        rows=COUNTS,
    ),
    Case(
        "write metric.quantiles: [0.05, 0.5, 0.95]",
        ("metric={name: coverage, target: 0.9}",),
        rows=COUNTS,
    ),
    Case(
        "remove metric.quantile",
        ("metric.name=pinball", "metric.quantile=0.9", QUANTILES),
        rows=COUNTS,
    ),
    Case(
        "write metric.name: pinball, or remove metric.quantiles",
        (DEVIANCE, QUANTILES),
        rows=COUNTS,
    ),
    Case(
        "choose boosting, or remove metric.quantiles",
        ("metric.name=pinball", QUANTILES, "model={kind: forest}"),
        rows=COUNTS,
        does=("model.kind=boosting",),
    ),
    Case(
        "remove training.loss",
        ("metric.name=pinball", QUANTILES, "training.loss.name=mse"),
        base="network",
        rows=COUNTS,
    ),
    Case(
        "write metric.target: 0.9, or metric.name: interval_score",
        ("metric.name=coverage", QUANTILES),
        rows=COUNTS,
    ),
    Case("remove metric.quantiles", ("metric={name: roc_auc, quantiles: [0.1, 0.5, 0.9]}",)),
    Case(
        "write training.calibration: conformal",
        ("metric.name=pinball", QUANTILES, "training.calibration=platt"),
        rows=COUNTS,
    ),
    Case(
        "remove training.calibration, or add for example metric.quantiles: [0.05, 0.5, 0.95]",
        ("metric.name=pinball", "training.calibration=conformal"),
        base="network",
        rows=COUNTS,
        does=(QUANTILES,),
    ),
    Case(
        "name the classes from the lowest to the highest in data.order, each once",
        ("data.order=[no]",),
        does=("data.order=[no, yes]",),
    ),
    Case(
        "name these classes from the lowest to the highest in data.order",
        ("data.order=[no, maybe]",),
        does=("data.order=[no, yes]",),
    ),
    Case(
        "remove data.order, or write task: classification",
        ("data.order=[0, 1, 2]", "task=regression"),
        rows=csv(y=[at % 3 for at in range(ROWS)]),
    ),
    Case(
        "name the classes from the lowest to the highest in data.order, or write here f1_macro",
        ("metric.name=quadratic_kappa",),
        does=("data.order=[no, yes]", "metric.name=f1_macro"),
    ),
    Case(
        "write model.ensemble: weighted",
        ("metric.name=pinball", QUANTILES, "model={kind: auto, ensemble: stacked}"),
        rows=COUNTS,
    ),
    Case("write metric.name: cost, or remove metric.costs", (COSTS, "metric.name=f1")),
    Case("remove training.threshold", (COSTS, "training.threshold=0.3")),
    Case(
        "say in metric.costs what each error costs, or write here f1_macro",
        ("metric.name=cost",),
        does=(COSTS, "metric.name=f1_macro"),
    ),
    Case(
        "raise metric.costs.no.yes",
        ("metric.costs={no: {yes: 1, no: 2}, yes: {no: 5}}",),
        does=("metric.costs.no.yes=3",),
    ),
    Case(
        "name the classes in metric.costs as the data does",
        ("metric.costs={No: {Yes: 1}, Yes: {No: 5}}",),
        does=(COSTS,),
    ),
    Case("remove metric.costs", (COSTS,), rows=COUNTS),
    Case(
        "name the classes from the lowest to the highest in data.order, or remove training.loss",
        ("training.loss.name=ordinal",),
        base="network",
        does=("data.order=[no, yes]",),
    ),
)
