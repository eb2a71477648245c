"""Data that the model, the slices or the machine cannot take as the contract says."""

from __future__ import annotations

import sqlite3

from advised.cases import LABELS, NUMBERS, ROWS, Case, csv

IN_FILES = "data.reading.rows_in=files"
MEMORY = "or data.reading.rows_in: memory, on a machine that has as much"
MANY = "x,y\n" + "".join(f"{at * 37 % 1009}.5,{LABELS[at % ROWS]}\n" for at in range(1000))


def database() -> bytes:
    """A database of SQLite with the table `t`."""
    made = sqlite3.connect(":memory:")
    made.execute("CREATE TABLE t (x, z, y)")
    rows = [(at * 37 % 101 / 4, at, LABELS[at]) for at in range(ROWS)]
    made.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    made.commit()
    return made.serialize()


DATABASE = database()

CASES = (
    Case(
        f"model: {{kind: boosting}}, mlp or ft_transformer or tabular_resnet, {MEMORY}", (IN_FILES,)
    ),
    Case(
        f"remove folds, {MEMORY}",
        (IN_FILES, "model={kind: boosting}", "data.split={kind: random, folds: 3}"),
    ),
    Case(
        f"report it, {MEMORY}",
        (IN_FILES, "model={kind: boosting}", "data.quality.actions.near_duplicates=drop"),
        does=("data.quality.actions.near_duplicates=report",),
    ),
    Case(
        f"compute it into columns beforehand, {MEMORY}",
        (
            IN_FILES,
            "task=regression",
            "model={kind: boosting}",
            "data.split={kind: time, column: day}",
            "data.features.history={time: day, columns: [y], lags: [1], horizon: 1}",
        ),
        does=("-data.features.history",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        f"write codes, {MEMORY}",
        (IN_FILES, "model={kind: boosting}", "data.features.categorical=target"),
        does=("data.features.categorical=codes",),
    ),
    Case(
        f"write ignored, {MEMORY}",
        (IN_FILES, "model={kind: boosting}", "data.columns.word.kind=text"),
        does=("data.columns.word.kind=ignored",),
    ),
    Case(
        "use objective: squared_error",
        ("task=regression", "model={kind: boosting, objective: poisson}"),
        rows=csv(y=[value - 9 for value in NUMBERS]),
    ),
    Case(
        "remove it",
        ("task=regression", "model={kind: boosting, objective: log_loss}"),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "write metric.name: mae, or choose other test rows",
        ("task=regression", "metric.name=mape"),
        does=("metric.name=mae",),
        rows=csv(y=[at % 5 for at in range(ROWS)]),
    ),
    Case(
        "remove class_weights",
        ("task=regression", "model={kind: boosting, class_weights: balanced}"),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "remove monotone or write model.objective: squared_error",
        (
            "task=regression",
            "model={kind: boosting, objective: absolute_error, monotone: {x: increasing}}",
        ),
        does=("model.objective=squared_error",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "remove training.calibration",
        ("task=regression", "training.calibration=platt"),
        "network",
        does=("-training.calibration",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "remove training.threshold",
        ("task=regression", "training.threshold=0.3"),
        "network",
        does=("-training.threshold",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "write metric.name: f1, or a number for the threshold",
        ("model={kind: boosting}", "training.threshold=auto", "metric.name=roc_auc"),
        does=("metric.name=f1", "training.threshold=0.3"),
    ),
    Case(
        "remove monotone",
        ("model={kind: boosting, monotone: {x: increasing}}",),
        rows=csv(y=[f"c{at % 3}" for at in range(len(NUMBERS))]),
    ),
    Case(
        "slice by a condition instead, for example where: x > ...",
        ("slices=[{column: x}]",),
        rows=MANY,
        does=(("-slices.0.column", "slices.0.where=x > 3"),),
    ),
    Case("columns: x, z, word, day, y", ("slices=[{where: x >}]",), does=("slices.0.where=x > 3",)),
    Case(
        "name them by a pattern: deep/**/*.csv",
        ("data.path=deep",),
        files={f"deep/a/{year}/rows.csv": csv() for year in (2019, 2020)},
    ),
    Case(
        "list what is there: ls HERE",
        ("data.path=part*.csv",),
        does=("data.path=rows.csv",),
        rows=csv(),
    ),
    Case(
        "data.quality.actions: {exact_duplicates: drop} keeps the first in training; trainwright "
        "data check names the rows",
        ("data.quality.actions.exact_duplicates=fail",),
        rows=csv() + "\n".join(csv().splitlines()[1:40]) + "\n",
    ),
    Case(
        "inspect the rows with trainwright data check, or choose report",
        ("data.quality.actions.missing=drop",),
        does=("data.quality.actions.missing=report",),
        rows=csv(
            x=["" if at % 2 else at * 37 % 101 for at in range(ROWS)],
            z=[at * 13 % 17 if at % 2 else "" for at in range(ROWS)],
        ),
    ),
    Case(
        "inspect the rows with trainwright data check, or choose drop",
        ("data.quality.actions.label_error=relabel", "task=regression"),
        does=("data.quality.actions.label_error=drop",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "name the columns: SELECT a.id, b.id AS other_id ...",
        (
            "-data.path",
            "data.sql={url: 'sqlite:///shop.db', query: 'SELECT a.*, b.x FROM t a JOIN "
            "t b ON a.z = b.z'}",
        ),
        does=("data.sql.query=SELECT a.*, b.x AS other_x FROM t a JOIN t b ON a.z = b.z",),
        files={"shop.db": DATABASE},
    ),
    Case(
        "simplify the query, or raise data.reading.most_seconds",
        (
            "-data.path",
            "data.reading.most_seconds=0.01",
            "data.sql={url: 'sqlite:///shop.db', query: 'WITH RECURSIVE n(i) AS (SELECT 1 UNION "
            "ALL SELECT i + 1 FROM n WHERE i < 500000) SELECT * FROM t WHERE (SELECT count(*) FROM "
            "n) > 1'}",
        ),
        does=("data.reading.most_seconds=60",),
        files={"shop.db": DATABASE},
    ),
    Case(
        "leave data.reading.numbers out, and give the numbers as 1234.5",
        (
            "-data.path",
            "data.sql={url: 'sqlite:///shop.db', query: SELECT * FROM t}",
            "data.reading.numbers={x: decimal_comma}",
        ),
        does=("-data.reading.numbers",),
        files={"shop.db": DATABASE},
    ),
    Case(
        "name only one column with dates, or write the time to one column and name it "
        "in data.split.column",
        ("data.split={kind: time, parts: [x, z]}",),
        does=("data.split={kind: time, column: day}",),
        rows=csv(x=[at * 10**14 for at in range(ROWS)], z=[at * 10**14 for at in range(ROWS)]),
    ),
)
