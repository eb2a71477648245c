"""Contracts about several targets that contradict themselves or their rows."""

from __future__ import annotations

from advised.cases import ROWS, Case, csv

Y = [at * 37 % 101 * 1.5 for at in range(ROWS)]
LABELLED = {
    "one": [at * 7 % 3 % 2 for at in range(ROWS)],
    "two": [at * 11 % 5 % 2 for at in range(ROWS)],
}
BOTH = csv(
    y=Y,
    v=[at * 53 % 97 * 0.5 for at in range(ROWS)],
    **LABELLED,
    tags=[("red;blue", "red", "green;blue", "green")[at * 7 % 4] for at in range(ROWS)],
    gaps=[("red;blue", "red", "", "green")[at * 7 % 4] for at in range(ROWS)],
    words=[("few", "many")[at % 2] for at in range(ROWS)],
)
ODD = csv(
    y=Y,
    **LABELLED,
    tags=["red"] * ROWS,
    gaps=["red"] * ROWS,
    words=["few"] * ROWS,
    odd=["maybe" if at == 5 else at % 2 for at in range(ROWS)],
)
SAME = csv(
    **LABELLED,
    three=[1] * ROWS,
)
NUMBERS = "data.target=[y, v]"
LABELS = "data.target=[one, two]"
TREES = "model={kind: boosting}"
SPARE = "data.exclude=[tags, gaps, words, day]"
ONE_TARGET = "data.target=y"

CASES = (
    Case(
        "name each column once, and a single one without brackets",
        ("data.target=[y]", SPARE, TREES),
        rows=BOTH,
        does=(ONE_TARGET, NUMBERS),
    ),
    Case(
        "remove data.labels",
        (LABELS, 'data.labels={separator: ";"}', SPARE, TREES),
        rows=BOTH,
    ),
    Case(
        'write data.labels: {separator: ";"}, or remove data.labels',
        ("data.target=tags", "data.labels={empty: none}", "data.exclude=[gaps, words, day]", TREES),
        rows=BOTH,
    ),
    Case(
        'write data.labels: {separator: ";"}, or task: classification',
        ("task=multilabel", "data.target=tags", "data.exclude=[gaps, words, day]", TREES),
        rows=BOTH,
    ),
    Case(
        "write task: multilabel, or name one column in data.target",
        ("task=classification", LABELS, SPARE, TREES),
        rows=BOTH,
        does=("data.target=one",),
    ),
    Case(
        "choose boosting, or name one column in data.target",
        (NUMBERS, SPARE, "model={kind: neighbours}"),
        rows=BOTH,
        does=("model.kind=boosting", ONE_TARGET),
    ),
    Case(
        "write model.ensemble: weighted, or name one column in data.target",
        (NUMBERS, SPARE, "model={kind: auto, candidates: [dummy, linear], ensemble: stacked}"),
        rows=BOTH,
        does=("model.ensemble=weighted", ONE_TARGET),
    ),
    Case(
        "remove model.objective, or write model: {kind: boosting}",
        (NUMBERS, SPARE, "model={kind: xgboost, objective: poisson}"),
        rows=BOTH,
    ),
    Case(
        "write metric.name: r2",
        (NUMBERS, SPARE, TREES, "metric={name: pinball}"),
        rows=BOTH,
    ),
    Case(
        "write metric.name: average_precision",
        ("task=multilabel", LABELS, SPARE, TREES, "metric={name: accuracy}"),
        rows=BOTH,
    ),
    Case(
        "write r2",
        (NUMBERS, SPARE, TREES, "slices=[{column: word, metric: pinball}]"),
        rows=BOTH,
        does=("slices.0.metric=r2",),
    ),
    Case(
        "remove metric.quantiles, or name one column in data.target",
        (NUMBERS, SPARE, TREES, "metric={name: mae, quantiles: [0.05, 0.5, 0.95]}"),
        rows=BOTH,
        does=(ONE_TARGET,),
    ),
    Case(
        "remove metric.costs",
        (LABELS, SPARE, TREES, "metric.costs={yes: {no: 2}}"),
        rows=BOTH,
    ),
    Case(
        "write data.split: {kind: random}",
        (LABELS, SPARE, TREES, "data.split={kind: stratified}"),
        rows=BOTH,
    ),
    Case(
        "write data.split: {kind: group, column: z}",
        (LABELS, SPARE, TREES, "data.split={kind: stratified_group, column: z}"),
        rows=BOTH,
    ),
    Case(
        "remove data.sampling",
        (LABELS, SPARE, "data.sampling={kind: balanced}"),
        "network",
        rows=BOTH,
    ),
    Case(
        "remove data.query, or name one column in data.target",
        (NUMBERS, SPARE, TREES, "data.query=z"),
        rows=BOTH,
        does=(ONE_TARGET,),
        leaves="a gain of 2",
    ),
    Case(
        "remove model.monotone, or name one column in data.target",
        (NUMBERS, SPARE, "model={kind: boosting, monotone: {x: increasing}}"),
        rows=BOTH,
        does=(ONE_TARGET,),
    ),
    Case(
        "remove data.features.history, or name one column in data.target",
        (
            NUMBERS,
            SPARE,
            TREES,
            "data.split={kind: time, column: day}",
            "data.features.history={time: day, columns: [x]}",
        ),
        rows=BOTH,
        does=(ONE_TARGET,),
    ),
    Case(
        "remove the line, or name one column in data.target",
        (LABELS, SPARE, TREES, "data.quality.actions={label_error: drop}"),
        rows=BOTH,
        does=("data.target=one", "-data.quality.actions.label_error"),
    ),
    Case(
        "remove training.loss",
        (NUMBERS, SPARE, "training.loss={name: quantile}"),
        "network",
        rows=BOTH,
    ),
    Case(
        "remove training.loss",
        (ONE_TARGET, SPARE, "training.loss={name: binary_cross_entropy}"),
        "network",
        rows=BOTH,
    ),
    Case(
        "change it, or remove training.loss",
        (NUMBERS, SPARE, "training.loss={name: binary_cross_entropy}"),
        "network",
        rows=BOTH,
    ),
    Case(
        "remove training.calibration",
        (LABELS, SPARE, TREES, "training.calibration=platt"),
        rows=BOTH,
    ),
    Case(
        "remove training.threshold",
        (NUMBERS, "task=regression", SPARE, TREES, "training.threshold=0.4"),
        rows=BOTH,
    ),
    Case(
        "write metric.name: f1_macro, or a number for the threshold of every label",
        (LABELS, SPARE, TREES, "training.threshold=auto"),
        rows=BOTH,
        does=("training.threshold=0.4",),
    ),
    Case(
        "write model: {kind: boosting, class_weights: balanced}, or remove class_weights",
        (LABELS, SPARE, "model={kind: forest, class_weights: balanced}"),
        rows=BOTH,
    ),
    Case(
        "name one column in data.target, or columns of one kind",
        ("data.target=[y, words]", "data.exclude=[tags, gaps, day]", TREES),
        rows=BOTH,
        does=(ONE_TARGET, NUMBERS),
    ),
    Case(
        "repair these rows, or leave the column out of data.target",
        (
            "data.target=[one, two, odd]",
            SPARE,
            TREES,
            "-data.path",
            "data.train_path=rows.csv",
            "data.val_path=other.csv",
        ),
        rows=ODD.replace("maybe", "1"),
        files={"other.csv": ODD},
        does=(("data.target=[one, two]", "data.exclude=[tags, gaps, words, odd]"),),
    ),
    Case(
        "leave these labels out, or add rows",
        ("data.target=[one, two, three]", "data.exclude=[day]", TREES),
        rows=SAME,
        does=("data.target=[one, two]",),
    ),
    Case(
        "write task: regression",
        ("task=multilabel", NUMBERS, SPARE, TREES),
        rows=BOTH,
    ),
    Case(
        "name what stands between two labels of a cell, or remove data.labels",
        ("data.target=words", 'data.labels={separator: "/"}', "data.exclude=[day]"),
        rows=csv(
            words=[("red/red", "red")[at % 2] for at in range(ROWS)],
            tags=[("red;blue", "red", "green")[at * 7 % 3] for at in range(ROWS)],
        ),
        does=(("data.target=tags", "data.labels.separator=;", "data.exclude=[day, words]"),),
    ),
    Case(
        "repair the rows, or leave them out with data.missing_target: drop; if they have no label, "
        "write data.labels.empty: none",
        ("data.target=gaps", 'data.labels={separator: ";"}', "data.exclude=[tags, words, day]"),
        rows=BOTH,
        does=("data.missing_target=drop",),
    ),
)
