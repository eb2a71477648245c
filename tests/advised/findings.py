"""What `data check` finds, and what is to be written against it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from advised.cases import (
    LABELS,
    NUMBERS,
    ROWS,
    Case,
    csv,
    made_folder,
    problems_of,
    ways_of,
    written,
)
from advised.following import Values
from trainwright.core.errors import Problem
from trainwright.core.files import write_json
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.run.after.data_quality import check_contract_data


@final
@dataclass(frozen=True, slots=True)
class Found:
    """A case whose fix is that of a finding; `stays` where the advice is about what is done with
    it, and the finding may be seen again."""

    case: Case
    stays: bool = False

    def __str__(self) -> str:
        return self.case.fix[:60]


def found(fix: str, *settings: str, stays: bool = False, **given: object) -> Found:
    return Found(Case(fix, settings, **given), stays)


def findings_of(values: Values, folder: Path, fix: str) -> tuple[Finding, ...]:
    """What `data check` finds by its quick checks, or by all of them for a fix of a slow one."""
    effort: Effort = "all" if "near_duplicates" in fix else "quick"
    write_json(folder / "contract.yaml", values)
    return check_contract_data(folder / "contract.yaml", "", effort, lambda _: None)


def check_finding(one: Found, shared: Path, folder: Path) -> None:
    """The finding is there with its fix; every alternative gives a contract that can be trained,
    and the finding is gone, unless it may stay."""
    case = one.case
    folder = made_folder(case, shared, folder)
    values = written(case)
    before = findings_of(values, folder, case.fix)
    finding = next((each for each in before if each.fix == case.fix), None)
    assert finding, f"the fix is not said: {[(each.message, each.fix) for each in before]}"
    problem = Problem(finding.message, path="data.columns", fix=finding.fix)
    ways = ways_of(case, values, problem)
    assert ways, f"{finding.fix!r} is not done in any way"
    for advice, changed in ways:
        left = [each for each in problems_of(changed, folder) if case.leaves not in each.message]
        assert not left, f"{advice!r} makes a mistake: {[str(each) for each in left]}"
        if one.stays:
            continue
        again = {(each.kind, each.message) for each in findings_of(changed, folder, case.fix)}
        assert (finding.kind, finding.message) not in again, f"{advice!r} mends nothing"


WORDS = [("red", "green", "blue")[at % 3] for at in range(ROWS)]
NOISE = [((at * 7919) % 1009) / 3 for at in range(ROWS)]
COPY = [f"{at * 37 % 101 / 4}" for at in range(ROWS)]
DROP = "data.quality.actions"
FINE = {
    "x": [at * 37 % 101 / 4 + at * 7919 % 10007 / 1e4 for at in range(ROWS)],
    "z": [at * 7919 % 10007 / 7 for at in range(ROWS)],
    "day": [at * 104729 % 100003 / 11 for at in range(ROWS)],
}


def near(lines: list[str]) -> list[str]:
    """Rows once more, but for rounding."""
    return [f"{float(line.partition(',')[0]) + 1e-9!r},{line.partition(',')[2]}" for line in lines]


def wide() -> str:
    """More columns than training rows."""
    names = [f"c{at}" for at in range(130)]
    lines = [",".join([*names, "y"])]
    for row in range(40):
        cells = [str((row * 31 + at * 17) % 97 + at * row % 7 / 10) for at in range(130)]
        lines.append(",".join([*cells, LABELS[row]]))
    return "\n".join(lines) + "\n"


TEXTS = [
    " ".join(f"{word}{at * 7919 % 1009}" for word in ("the", "story", "of", "number", "is", "told"))
    for at in range(ROWS)
]

CASES = (
    found(
        "remove the column from data.known if it is not known before its time",
        "data={kind: series, path: rows.csv, target: y, time: day, horizon: 3, season: 1}",
        "data.known=[x]",
        does=("data.known=[]",),
        rows=csv(y=NUMBERS, x=[one * 2 for one in NUMBERS], day=list(range(ROWS))),
    ),
    found(
        "list the column in data.exclude if it is not known when a prediction is made",
        does=("data.exclude=[x]",),
        rows=csv(x=[label == "yes" for label in LABELS]),
    ),
    found(
        "judge by average_precision or f1_macro, not accuracy; weigh the classes with "
        "model.class_weights: balanced (trees) or training.loss: {name: cross_entropy, "
        "class_weights: balanced} (networks)",
        "model={kind: boosting}",
        does=("metric.name=average_precision", "metric.name=f1_macro"),
        stays=True,
        leaves="training has no effect",
        rows=csv(y=[("no", "yes")[at % 20 == 0] for at in range(ROWS)]),
    ),
    found(
        "collect more, merge classes with data.columns.y.values, or drop them",
        does=("data.columns.y.values={maybe: no}",),
        rows=csv(y=["maybe"] * 6 + LABELS[6:]),
    ),
    found(
        "data.quality.actions: {exact_duplicates: drop} keeps the first in training",
        stays=True,
        rows=csv() + "\n".join(csv().splitlines()[1:40]) + "\n",
    ),
    found(
        "data.missing_target: drop excludes these rows", stays=True, rows=csv(y=["", *LABELS[1:]])
    ),
    found(
        "data.features.impute imputes numbers; missing words become a category of their own; "
        "data.quality.actions: {missing: drop} excludes training rows",
        does=("data.features.impute=median",),
        stays=True,
        rows=csv(x=["", "", *NOISE[2:]]),
    ),
    found(
        "remove the word from data.missing_values if it is a category",
        does=('data.missing_values=[""]',),
        rows=csv(word=["NA", "EU"] * 60),
    ),
    found(
        "data.reading.numbers.x: decimal_comma (of files)",
        rows=csv(x=[f'"{at * 37 % 101},5"' for at in range(ROWS)]),
    ),
    found(
        "fix the file, add a spelling to data.missing_values, or set the column's kind",
        does=('data.missing_values=["", tall]', "data.columns.x.kind=categorical"),
        rows=csv(x=["tall", *NOISE[1:]]),
    ),
    found('data.columns.word.values: {"Red": "red"}', rows=csv(word=["Red", *WORDS[1:]])),
    found(
        "if it means missing, add the spelling to data.missing_values; otherwise fix the rows",
        does=('data.missing_values=["", 1900-01-01]',),
        rows=csv(day=["1900-01-01"] * 4 + [f"2020-01-{at % 28 + 1:02d}" for at in range(4, ROWS)]),
    ),
    found(
        'data.columns.x.values: {"0": ""} makes them missing',
        rows=csv(x=[0] * 8 + [100 + at * 37 % 101 / 4 for at in range(8, ROWS)]),
    ),
    found(
        "declare the valid values: data.columns.x.range: [low, high], or add the spelling to "
        "data.missing_values",
        does=('data.missing_values=["", "-999.0", "-999"]',),
        rows=csv(x=[-999] * 8 + NOISE[8:]),
    ),
    found(
        "fix the rows, correct data.columns.x.range, or choose an action in data.quality.actions",
        "data.columns.x.range=[0, 300]",
        does=("data.columns.x.range=[0, 400]",),
        rows=csv(x=NOISE),
    ),
    found(
        "data.quality.actions: {outliers: cap} clips them to the range of the others",
        stays=True,
        rows=csv(x=[9e6, *NOISE[1:]]),
    ),
    found(
        "data.features.numeric: quantile, or a logarithm, for linear models and networks",
        stays=True,
        rows=csv(x=[1.12**at for at in range(ROWS)]),
    ),
    found(
        "list it in data.exclude; if it names groups of related rows, split by it: "
        "data.split: {kind: group, column: x}",
        does=("data.exclude=[x]",),
        stays=True,
        rows=csv(x=[f"p{at:03}" for at in range(ROWS)]),
    ),
    found(
        "list it in data.exclude, or use its words: data.columns.x.kind: text",
        does=("data.exclude=[x]", "data.columns.x.kind=text"),
        stays=True,
        rows=csv(
            x=[f"the {at} green cats sat on mat {at * 7} of the long house" for at in range(ROWS)]
        ),
    ),
    found(
        "data.features.rare_below merges them; a slice of them cannot be evaluated",
        does=("data.features.rare_below=5",),
        stays=True,
        rows=csv(word=["pink", *WORDS[1:]]),
    ),
    found(
        "data.quality.actions: {near_duplicates: drop} keeps the first in training",
        stays=True,
        rows=csv(**FINE) + "\n".join(near(csv(**FINE).splitlines()[1:30])) + "\n",
    ),
    found(
        "inspect them; data.quality.actions: {short_text: drop} excludes them from training",
        "data.columns.word.kind=text",
        stays=True,
        rows=csv(
            word=["...", *(f"a line of words number {at} in a text" for at in range(1, ROWS))]
        ),
    ),
    found(
        "row-based lags and windows are wrong there: add the rows, or use the time itself",
        does=("data.exclude=[day]",),
        stays=True,
    ),
    found(
        "collect more rows, or list uninformative columns in data.exclude",
        does=("data.exclude=[c0, c1]",),
        stays=True,
        rows=wide(),
    ),
    found(
        'keep equal rows on one side: data.split: {kind: random, key: "*"}, or drop them',
        "data.split={kind: random}",
        stays=True,
        rows=csv() + "\n".join(csv().splitlines()[1:]) + "\n",
    ),
    found(
        "add later to data.exclude",
        "data.split={kind: time, column: day}",
        does=("data.exclude=[later]",),
        rows=csv(later=[f"2021-{at // 28 + 1:02d}-{at * 11 % 28 + 1:02d}" for at in range(ROWS)]),
    ),
    found(
        "list the column in data.exclude if it is not known when a prediction is made",
        "data.split={kind: random}",
        "task=regression",
        does=("data.exclude=[x]",),
        rows=csv(y=NUMBERS, x=[value * 2 + 1 for value in NUMBERS]),
    ),
    found(
        "data.quality.actions: {near_duplicates: drop} removes them from training",
        "data.columns.word.kind=text",
        "data.features={text: {rows: 1}}",
        "data.exclude=[day, x, z]",
        stays=True,
        rows=csv(word=[f"{TEXTS[at // 2]}{'.' * (at % 2)}" for at in range(ROWS)]),
    ),
)
