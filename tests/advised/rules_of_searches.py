"""Contracts whose search cannot be run."""

from __future__ import annotations

from advised.cases import Case

LIST, INTERVAL = "model.a: [1, 2]", "model.b: {low: 1, high: 2}"


def over(*axes: str) -> str:
    return f"tune={{over: {{{', '.join(axes)}}}}}"


CASES = (
    Case(
        "remove seed here, or write several contracts",
        (over("seed: [1, 2]", LIST),),
        does=("-tune.over.seed",),
    ),
    Case("remove storage", (over(LIST), "tune.storage=sqlite:///study.db")),
    Case("remove stop, or folds", (over(LIST), "tune.folds=3", "tune.stop=median")),
    Case("remove data.split.folds", (over(LIST), "tune.folds=3", "data.split.folds=3")),
    Case(
        "remove values, or low, high and scale",
        (over("model.a: {values: [1], low: 1, high: 2}"),),
        does=('-tune.over."model.a".values',),
    ),
    Case(
        "write for example {low: 0.01, high: 0.3}, or [0.01, 0.1, 0.3]",
        (over("model.a: {low: 0.1}"),),
        does=('tune.over."model.a"=[0.01, 0.1, 0.3]',),
    ),
    Case(
        "swap low and high",
        (over("model.a: {low: 2, high: 1}"),),
        does=('tune.over."model.a"={low: 1, high: 2}',),
    ),
    Case("raise low, or remove scale", (over("model.a: {low: 0, high: 1, scale: log}"),)),
    Case(
        "write model.a",
        (over(LIST, "model.b: {low: 1, high: 2, only_with: {model.aa: 1}}"),),
        does=('tune.over."model.b".only_with={model.a: 1}',),
    ),
    Case(
        "search training.c too",
        (over(LIST, "model.b: {low: 1, high: 2, only_with: {training.c: 1}}"),),
        does=('tune.over."training.c"=[1, 2]',),
    ),
    Case(
        "write one of its values",
        (over(LIST, "model.b: {low: 1, high: 2, only_with: {model.a: 3}}"),),
        does=('tune.over."model.b".only_with={model.a: 1}',),
    ),
    Case(
        "remove only_with of one of them",
        (
            over(
                "model.a: {values: [1, 2], only_with: {model.b: 1}}",
                "model.b: {values: [1, 2], only_with: {model.a: 1}}",
            ),
        ),
        does=('-tune.over."model.a".only_with',),
    ),
    Case("write a list, or tune.method: tpe", (over(INTERVAL), "tune.method=grid")),
    Case(
        "write an interval without only_with, or tune.method: tpe",
        (over(LIST), "tune.method=cmaes"),
    ),
    Case(
        "write tune.method: tpe",
        (over(INTERVAL), "tune.method=cmaes", "tune.storage=postgresql://host/database"),
    ),
    Case(
        "name the server, such as http://127.0.0.1:5000, as tracking.mlflow_uri",
        ("tracking.sinks=[mlflow]",),
        does=("tracking.mlflow_uri=http://127.0.0.1:5000",),
    ),
)
