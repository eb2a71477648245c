"""Advice that works: what a fix says to write is written, and the problem is gone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, final

import pytest

from advice import Values, followed
from trainwright.contract.overrides import set_values
from trainwright.contract.reading import ContractText
from trainwright.contract.yaml_text import Written
from trainwright.core.errors import Mistake, Problem
from trainwright.run.ready import Request, make_ready
from trainwright.run.stages import Stages, StreamScreen

ROWS = 120
LABELS = [("no", "yes")[at * 7 % 3 == 0] for at in range(ROWS)]


def csv(**changed: list[Any]) -> str:
    """A table of 120 rows with other columns, or other values, as asked."""
    columns: dict[str, list[Any]] = {
        "x": [at * 37 % 101 / 4 for at in range(ROWS)],
        "z": [at * 13 % 17 for at in range(ROWS)],
        "word": [("red", "green", "blue")[at % 3] for at in range(ROWS)],
        "day": [f"2020-{at // 28 + 1:02d}-{at % 28 + 1:02d}" for at in range(ROWS)],
        "y": list(LABELS),
    }
    columns.update(changed)
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    return "\n".join(lines) + "\n"


@final
@dataclass(frozen=True, slots=True)
class Case:
    """A contract on `rows.csv` with a mistake: values that are set, and the text of its file.
    `fixes` is how many alternatives of the fix can be done."""

    settings: tuple[str, ...] = ()
    text: str | bytes = field(default_factory=csv)
    fixes: int = 1
    files: Mapping[str, str] = field(default_factory=dict)
    name: str = "rows.csv"


def edited(at: int, line: str) -> str:
    lines = csv().splitlines()
    lines[at] = line
    return "\n".join(lines) + "\n"


NUMBERS = [at * 37 % 101 * 1.5 for at in range(ROWS)]
MLP = ("model.kind=mlp", "training.num_epochs=2")

CASES: Mapping[str, Case] = {
    "metric misspelled": Case(("metric.name=acuracy",)),
    "metric of another task": Case(("metric.name=rmse", "task=classification")),
    "a key misspelled": Case(("data.exclud=[x]",)),
    "a target in percent": Case(("metric.name=accuracy", "metric.target=92")),
    "mode against the metric": Case(
        (*MLP, "metric.name=accuracy", "training.early_stopping.mode=min"), fixes=2
    ),
    "regression on words": Case(("task=regression",)),
    "classification of numbers": Case(("task=classification",), csv(y=NUMBERS), fixes=2),
    "two classes needed": Case(("metric.name=f1",), csv(y=["a", "b", "c"] * 40)),
    "positive of three": Case(("data.positive=a",), csv(y=["a", "b", "c"] * 40)),
    "positive of numbers": Case(("data.positive=a", "task=regression"), csv(y=NUMBERS)),
    "positive misspelled": Case(("data.positive=yess",)),
    "a column misspelled": Case(("data.exclude=[wrod]",)),
    "a format of words": Case(("data.columns.word={kind: categorical, format: '%Y'}",), fixes=2),
    "a unit of words": Case(("data.columns.word={kind: categorical, unit: EUR}",), fixes=2),
    "a time split without a time": Case(("data.split.kind=time",)),
    "parts with a gap": Case(
        ("data.split={kind: time, parts: [z, x], gap: 3}",), csv(x=[at % 7 for at in range(ROWS)])
    ),
    "classes too rare to stratify": Case(
        ("data.split.kind=stratified",), csv(y=["once", *LABELS[1:]])
    ),
    "a stratified split of numbers": Case(("data.split.kind=stratified",), csv(y=NUMBERS)),
    "a target that is missing": Case((), csv(y=["", *LABELS[1:]])),
    "another encoding": Case((), csv(word=["Straße"] * 60 + ["Weg"] * 60).encode("cp1252")),
    "UTF-16": Case((), csv().encode("utf-16")),
    "a NUL byte": Case((), edited(50, "1,2,r\0ed,2020-01-01,yes")),
    "names that stand twice": Case((), csv().replace("x,z", "x,x", 1), fixes=2),
    "quotes that do not end": Case((), edited(50, '1,2,"red,2020-01-01,yes')),
    "too many fields": Case((), edited(50, "1,2,red,2020-01-01,yes,6")),
    "dates in two ways": Case(
        ("data.columns.day.kind=datetime",),
        csv(day=[f"{at % 9 + 1:02d}/0{at % 7 + 1}/2020" for at in range(ROWS)]),
    ),
    "a target of dates": Case(("data.columns.y.kind=datetime",)),
    "words among numbers": Case(
        ("data.columns.x.kind=numeric",), csv(x=["tall", *range(1, ROWS)]), fixes=2
    ),
    "numbers with commas": Case(
        ("data.columns.x.kind=numeric", "data.reading.separator=;"),
        csv(x=[f"{at * 37 % 101},5" for at in range(ROWS)])
        .replace(",5,", "|5,")
        .replace(",", ";")
        .replace("|", ","),
    ),
    "too many folds": Case(("data.split={kind: group, column: z, folds: 60}",), csv()),
    "an empty share": Case(("data.split={kind: random, validation: 0}",)),
    "parts by other names": Case(
        ("data.split={kind: column, column: word}",),
        csv(word=(["train"] * 4 + ["val", "test"]) * 20),
    ),
    "classes that only the test file has": Case(
        ("data.test_path=test.csv",), files={"test.csv": csv(y=["Yes", *LABELS[1:]])}
    ),
    "training beside boosting": Case(("model.kind=boosting", "training.num_epochs=3"), fixes=2),
    "Nesterov without momentum": Case(
        (*MLP, "training.optimizer={name: sgd, learning_rate: 0.1, momentum: 0, nesterov: true}"),
        fixes=2,
    ),
    "a warmup longer than the run": Case((*MLP, "training.scheduler.warmup_steps=9999")),
    "a past without a time": Case(
        (
            "data.split.kind=random",
            "task=regression",
            "data.features.history={time: day, columns: [y], lags: [1], horizon: 1}",
        ),
        csv(y=NUMBERS),
    ),
    "lists in JSON": Case(
        (),
        "\n".join(json.dumps({"x": at, "l": [at], "y": LABELS[at]}) for at in range(ROWS)),
        name="rows.jsonl",
    ),
}


def problems(values: Values, folder: Path) -> list[Problem]:
    """What is wrong with a contract and its data; nothing if it can be trained."""
    request = Request(ContractText.of(values, folder))
    try:
        make_ready(request, Stages(), StreamScreen(StringIO()))
    except Mistake as mistake:
        return list(mistake.problems)
    return []


@pytest.mark.parametrize("name", CASES)
def test_what_a_fix_says_to_write_mends_the_problem(tmp_path: Path, name: str) -> None:
    case = CASES[name]
    text = case.text if isinstance(case.text, bytes) else case.text.encode()
    (tmp_path / case.name).write_bytes(text)
    for other, content in case.files.items():
        (tmp_path / other).write_text(content)
    key = "train_path" if case.files else "path"
    base: Values = {"data": {key: case.name, "target": "y"}, "model": {"kind": "linear"}}
    values, _ = set_values(Written(base, {}), case.settings)
    assert isinstance(values.value, dict)
    found = problems(values.value, tmp_path)
    assert found, "the case has its mistake"
    problem = found[0]
    done = list(followed(values.value, problem))
    assert len(done) >= case.fixes, f"{problem.fix!r} can be done in {len(done)} ways"
    for advice, changed in done:
        left = [one.message for one in problems(changed, tmp_path)]
        assert problem.message not in left, f"{advice!r} does not mend: {left}"
