"""Contracts whose data, task, metric or slices contradict themselves."""

from __future__ import annotations

from advised.cases import NUMBERS, ROWS, Case, csv

SPLIT_FILES = {"test.csv": csv(), "val.csv": csv()}
PARTS = "data={train_path: rows.csv, val_path: val.csv, test_path: test.csv, target: y}"
NO_PATH = "data={target: y}"

CASES = (
    Case("remove data.weight", ("data.weight=y",)),
    Case(
        "remove data.weight, or write model: {kind: boosting}",
        ("data.weight=z", "model={kind: neighbours}"),
    ),
    Case("correct the column, or remove data.weight", ("data.weight=z",), rows=csv(z=[0] * ROWS)),
    Case(
        "remove training.refit",
        ("training.refit=true", "data.split={kind: random, folds: 3}"),
        base="network",
    ),
    Case("remove training.refit", ("training.refit=true",), base="images"),
    Case(
        "remove training.refit",
        ("training.refit=true", "metric.quantiles=[0.1, 0.5, 0.9]"),
        "network",
        rows=csv(y=NUMBERS),
    ),
    Case(
        "remove training.average.start_epoch, or training.refit",
        (
            "training.refit=true",
            "training.average={kind: swa, start_epoch: 1, every_n_steps: 1}",
            "training.num_epochs=8",
        ),
        "network",
        does=("-training.refit",),
    ),
    Case(
        "write training.average.every_n_steps: 1, or remove training.refit",
        (
            "training.refit=true",
            "training.average={kind: swa, start_ratio: 0.5}",
            "training.num_epochs=8",
        ),
        "network",
    ),
    Case(
        "join the two files and name the part of each row in a column: data.split: {kind: column, "
        "column: NAME}, or remove training.refit",
        ("data={train_path: rows.csv, val_path: val.csv, target: y}", "training.refit=true"),
        base="network",
        files={"val.csv": csv()},
    ),
    Case(
        "write data.split: {kind: time, column: day}",
        (
            "task=regression",
            "data.split.kind=random",
            "data.features.history={time: day, columns: [y], lags: [1], horizon: 1}",
        ),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "add for example: lags: [1]",
        (
            "task=regression",
            "data.split={kind: time, column: day}",
            "data.features.history={time: day, columns: [y], horizon: 1}",
        ),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "change it to 3, or lower the horizon",
        (
            "task=regression",
            "data.split={kind: time, column: day}",
            "data.features.history={time: day, columns: [y], lags: [1], horizon: 3}",
        ),
        does=("data.features.history.horizon=1",),
        rows=csv(y=NUMBERS),
    ),
    Case("change it to median, or remove it", ("data.features.impute=none",)),
    Case(
        "remove max_categories, or change kind",
        ("data.columns.x={kind: numeric, features: {max_categories: 3}}",),
        does=("data.columns.x.kind=categorical",),
    ),
    Case(
        "remove the key; a transformed target is a column of its own in the file",
        ("task=classification", "data.columns.y.features.max_categories=3"),
        does=("-data.columns.y.features.max_categories",),
    ),
    Case("choose tabular_resnet, or change data.kind", ("model.kind=gpt",)),
    Case("choose resnet, or change data.kind", ("model={kind: gpt}",), "images"),
    Case("choose gpt, or change data.kind", ("model={kind: linear}", "-training"), "text"),
    Case("change task, or data.kind", ("task=generation",), does=("task=classification",)),
    Case(
        "change task, or data.kind", ("task=regression",), "images", does=("task=classification",)
    ),
    Case("change task, or data.kind", ("task=classification",), "text", does=("task=generation",)),
    Case("write for example 0.15", ("data.split={kind: random, validation: 0}",)),
    Case(
        "write for example 0.15 each",
        ("data.split={kind: random, validation: 0.6, test: 0.4}",),
        does=(("data.split.validation=0.15", "data.split.test=0.15"),),
    ),
    Case(
        "write for example 0.15 each",
        ("data.validation=0.6", "data.test=0.4"),
        "images",
        does=(("data.validation=0.15", "data.test=0.15"),),
    ),
    Case("change it to group", ("distributed.strategy=ddp", "model.norm=batch"), "images"),
    Case(
        "remove folds, or the path",
        ("data.split.folds=3", "data.val_path=pictures"),
        "images",
        does=("-data.split.folds", "-data.val_path"),
    ),
    Case(
        "remove folds, or the path",
        (PARTS, "-data.val_path", "data.split={kind: random, folds: 3}"),
        does=("-data.split.folds", "-data.test_path"),
        files=SPLIT_FILES,
    ),
    Case("change it to label", ("slices=[{column: patient}]",), "images"),
    Case("change it to position", ("slices=[{column: author}]",), "text"),
    Case("did you mean accuracy?", ("metric.name=acuracy",)),
    Case("choose one of them", ("metric.name=quickness",), does=("metric.name=accuracy",)),
    Case(
        "choose one of them, or change task to regression",
        ("metric.name=rmse", "task=classification"),
        does=("metric.name=accuracy",),
        leaves="holds words",
    ),
    Case("did you mean 0.92?", ("metric.name=accuracy", "metric.target=92")),
    Case(
        "write a value it can reach",
        ("metric.name=accuracy", "metric.target=920"),
        does=("metric.target=0.92",),
    ),
    Case(
        "change mode to max, or remove it",
        ("metric.name=accuracy", "training.early_stopping.mode=min"),
        "network",
    ),
    Case("did you mean val_accuracy?", ("training.early_stopping.metric=accuracy",), "network"),
    Case("write val_loss", ("training.early_stopping.metric=zz",), "network"),
    Case(
        "remove data.quality.look, or these actions",
        ("data.quality={look: quick, actions: {near_duplicates: drop}}",),
        does=("-data.quality.look", "-data.quality.actions"),
    ),
    Case("did you mean outliers?", ("data.quality.actions.outlier=cap",)),
    Case(
        "choose one of them",
        ("data.quality.actions.ghosts=drop",),
        does=("-data.quality.actions.ghosts",),
    ),
    Case(
        "choose one of these, or remove the line",
        ("data.quality.actions.leak=cap",),
        does=("data.quality.actions.leak=report", "-data.quality.actions.leak"),
    ),
    Case("write range: [2, 2000001]", ("data.columns.x.range=[2000001, 2]",)),
    Case(
        "correct it, or remove the line",
        ("data.columns.word.pattern='['",),
        does=("data.columns.word.pattern='[a-z]+'", "-data.columns.word.pattern"),
    ),
    Case(
        "remove one of the two",
        (PARTS, "-data.test_path", "data.split={kind: random, validation: 0.2}"),
        does=("-data.split.validation", "-data.val_path"),
        files=SPLIT_FILES,
    ),
    Case(
        "remove data.split, or val_path and test_path",
        (PARTS, "data.split={kind: random}"),
        does=(("-data.val_path", "-data.test_path"),),
        files=SPLIT_FILES,
    ),
    Case(
        "remove data.split, or the path",
        (PARTS, "-data.val_path", "data.split={kind: column, column: word}"),
        does=("-data.test_path",),
        rows=csv(word=["train", "train", "train", "validation", "test"] * 24),
        files=SPLIT_FILES,
    ),
    Case("remove it from exclude", ("data.exclude=[y]",), does=("-data.exclude.0",)),
    Case(
        "remove the key, or name another target",
        ("data.columns.y.kind=ignored",),
        does=("-data.columns.y.kind", "data.target=word"),
    ),
    Case(
        "name the column that the rows are divided by",
        ("data.split={kind: group, column: y}",),
        does=("data.split.column=z",),
    ),
    Case(
        "remove format, or change kind to datetime",
        ("data.columns.day={kind: categorical, format: '%Y-%m-%d'}",),
    ),
    Case(
        "remove unit, or change kind to numeric", ("data.columns.x={kind: categorical, unit: EUR}",)
    ),
    Case(
        "write column: NAME, or order: file if the rows stand in the order of time",
        ("data.split.kind=time",),
        does=("data.split.column=day", "data.split.order=file"),
    ),
    Case(
        "remove it, or make one column of the parts",
        ("data.split={kind: time, parts: [z, x], gap: 3}",),
        rows=csv(x=[at % 7 for at in range(ROWS)]),
    ),
    Case(
        "remove positive, or change task",
        ("data.positive=a", "task=regression"),
        does=("task=classification",),
        rows=csv(y=NUMBERS),
        leaves="is a number",
    ),
    Case(
        "keep one of the two",
        ("slices=[{column: word, where: x > 3}]",),
        does=("-slices.0.column", "-slices.0.where"),
    ),
    Case("add for example: column: region", ("slices=[{floor: 0.1}]",), leaves="no column"),
    Case("remove name", ("slices=[{column: word, name: colour}]",)),
    Case(
        "remove one, or give it a name of its own",
        ("slices=[{where: x > 3, name: far}, {where: x > 9, name: far}]",),
        does=("-slices.1", "slices.1.name=farther"),
    ),
    Case("add for example: price_per_hour: 2.5", ("budget.cost=3",)),
    Case("choose a name such as income", ("name=in/come",), does=("name=income",)),
    Case(
        "keep one of them", ("data.train_path=rows.csv",), does=("-data.path", "-data.train_path")
    ),
    Case("add for example: path: data.csv", (NO_PATH,), leaves="no such file"),
    Case("rename path to train_path", ("data.test_path=test.csv",), files=SPLIT_FILES),
    Case(
        "write both, for example url: sqlite:///shop.db and query: SELECT * FROM t",
        (NO_PATH, "data.sql.url=sqlite:///shop.db"),
        does=("data.sql.query=SELECT * FROM t",),
        leaves="database",
    ),
    Case(
        "export the rows to a file, or copy them into one of these",
        (NO_PATH, "data.sql={url: 'oracle://shop', query: SELECT * FROM t}"),
        does=(("-data.sql", "data.path=rows.csv"),),
    ),
    Case(
        "write SELECT ... FROM ...",
        (NO_PATH, "data.sql={url: 'sqlite:///shop.db', query: DROP TABLE t}"),
        does=("data.sql.query=SELECT * FROM t",),
        leaves="database",
    ),
    Case(
        "remove what stands behind the semicolon: it would not be run",
        (NO_PATH, "data.sql={url: 'sqlite:///shop.db', query: SELECT * FROM t; SELECT 1}"),
        does=("data.sql.query=SELECT * FROM t",),
        leaves="database",
    ),
    Case(
        'write for example ";" or "\\t"',
        ("data.reading.separator=ab",),
        does=('data.reading.separator=","',),
    ),
    Case(
        "correct the name", ("data.reading.encoding=utf-9",), does=("data.reading.encoding=utf-8",)
    ),
    Case("name files", ("data.path=frame://rows",), "images", does=("data.path=pictures",)),
    Case(
        "add for example slices: [{column: region}], or remove it",
        ("training.validation.slices=true",),
        "network",
        leaves="no column 'region'",
    ),
)
