"""Data that cannot be split as the contract says."""

from __future__ import annotations

from advised.cases import LABELS, NUMBERS, ROWS, Case, csv

FILES = "data={train_path: rows.csv, val_path: val.csv, test_path: test.csv, target: y}"
BOTH = {"val.csv": csv(), "test.csv": csv()}
GROUPS = [at // 30 for at in range(ROWS)]
HISTORY = "data.features.history={time: day, columns: [%s], lags: [1], horizon: 1}"
BY_DAY = "data.split={kind: time, column: day}"

CASES = (
    Case(
        "keep them in training, data.split: {kind: stratified, rare: train}, add rows, or merge "
        "classes with data.columns.y.values",
        ("data.split.kind=stratified",),
        does=("data.columns.y.values={once: no}",),
        rows=csv(y=["once", *LABELS[1:]]),
    ),
    Case("use split: {kind: random}", ("data.split.kind=stratified",), rows=csv(y=NUMBERS)),
    Case(
        "use split: {kind: group, column: z}",
        ("data.split={kind: stratified_group, column: z}",),
        rows=csv(y=NUMBERS),
    ),
    Case("set data.split.folds to 17", ("data.split={kind: column, column: z, folds: 5}",)),
    Case(
        "lower data.split.folds, or add data",
        ("data.split={kind: group, column: z, folds: 60}",),
    ),
    Case(
        "lower data.split.folds, or use split: {kind: random}",
        ("data.split={kind: stratified, folds: 50}",),
    ),
    Case(
        "lower folds, gap or window, or add data",
        ("data.split={kind: time, column: z, folds: 3, gap: 9}",),
        does=("data.split.gap=0",),
    ),
    Case(
        'set data.columns.word.values, for example {"val": "validation"}',
        ("data.split={kind: column, column: word}",),
        does=('data.columns.word.values={"val": "validation"}',),
        rows=csv(word=(["train"] * 3 + ["val", "test"]) * 24),
    ),
    Case(
        "add data, increase the shares, or name val_path and test_path",
        ("data.split={kind: random, validation: 0.001, test: 0.2}",),
        does=("data.split.validation=0.2",),
    ),
    Case(
        "add data, increase the shares, or name val_path and test_path, or lower gap or window",
        ("data.split={kind: time, column: z, gap: 90}",),
        does=("data.split.gap=0",),
    ),
    Case(
        "remove x from data.split.parts, or set data.columns.x.kind to numeric",
        ("data.split={kind: time, parts: [z, x]}", "data.columns.x.kind=categorical"),
        does=("-data.split.parts.1",),
        rows=csv(x=[at % 7 for at in range(ROWS)]),
    ),
    Case(
        "remove it, or set data.columns.z.kind to numeric",
        ("task=regression", BY_DAY, HISTORY % "x, z", "data.columns.z.kind=categorical"),
        does=("-data.features.history.columns.1",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "name one of the columns; the target only of a regression",
        ("task=regression", BY_DAY, HISTORY % "wrod"),
        does=("data.features.history.columns=[x]",),
        rows=csv(y=NUMBERS),
    ),
    Case(
        "rename them in the file, or leave out the lags and windows that they hold",
        ("task=regression", BY_DAY, HISTORY % "x"),
        does=("data.features.history.lags=[2]",),
        rows=csv(y=NUMBERS).replace("z,", "x (lag 1),", 1),
    ),
    Case(
        "set data.columns.day.format",
        (BY_DAY,),
        does=("data.columns.day.format='D%Y-%j'",),
        rows=csv(day=[f"D2020-{at + 1:03d}" for at in range(ROWS)]),
    ),
    Case(
        "repair these rows, or choose another split",
        (BY_DAY,),
        does=("data.split={kind: random}",),
        rows=csv(day=["", *(f"2020-01-{at % 28 + 1:02d}" for at in range(1, ROWS))]),
    ),
    Case(
        "mend the file, or set data.columns.z.values",
        (FILES, "-data.val_path", "data.split={kind: time, column: z, validation: 0.2}"),
        does=("data.columns.z.values={soon: '99'}",),
        files={"test.csv": csv(z=["soon"] * ROWS)},
    ),
    Case(
        "remove these rows from the validation file, or lower gap",
        (FILES, "-data.test_path", "data.split={kind: time, column: z, gap: 8}"),
        does=("data.split.gap=0",),
        leaves="not older",
        files={
            "rows.csv": csv(z=list(range(ROWS))),
            "test.csv": csv(z=[500] * ROWS),
            "val.csv": csv(z=[90 + at % 7 for at in range(ROWS)]),
        },
    ),
    Case(
        "give one file in data.path and split it by group",
        (
            "data={train_path: rows.csv, test_path: test.csv, target: y}",
            "data.split={kind: group, column: z}",
        ),
        does=("data={path: rows.csv, target: y, split: {kind: group, column: z}}",),
        files=BOTH,
    ),
    Case(
        "give one file in data.path and split it by time",
        ("data={train_path: rows.csv, test_path: test.csv, target: y}", BY_DAY),
        does=("data={path: rows.csv, target: y, split: {kind: time, column: day}}",),
        files=BOTH,
    ),
    Case(
        "use a stratified split, or add rows of other classes",
        ("data.split={kind: time, order: file}",),
        does=("data.split={kind: stratified}",),
        rows=csv(y=["no"] * 110 + ["yes"] * 10),
    ),
    Case(
        "use a stratified split, leave these rows out, or mend spellings with "
        "data.columns.y.values",
        ("data.split={kind: time, order: file}",),
        does=("data.split={kind: stratified}", "data.columns.y.values={rare: no}"),
        rows=csv(y=[*LABELS[:-15], *["rare"] * 15]),
    ),
    Case(
        "use split: {kind: stratified}, lower folds, or merge classes with data.columns.y.values",
        ("data.split={kind: group, column: z, folds: 3}",),
        does=("data.columns.y.values={rare: no}",),
        rows=csv(z=GROUPS, y=["rare"] * 30 + LABELS[30:]),
    ),
    Case(
        "write them, or name the key in data.split.key",
        ("data.split={kind: file, path: parts.csv}",),
        does=("data.split.key=id",),
        files={
            "parts.csv": "id,part\n"
            + "".join(
                f"{at},{('train', 'train', 'validation', 'test', 'test')[at // 2 % 5]}\n"
                for at in range(ROWS)
            )
        },
        rows=csv(x=list(range(ROWS))).replace("x,", "id,", 1),
    ),
)
