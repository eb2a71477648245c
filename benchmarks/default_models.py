"""What a contract that only names its data and `model: {kind: boosting}` gives, on real sets.

Each set is split anew with every seed, as a contract splits by default (70% train, 15% validate,
15% test), of at most so many rows, drawn evenly. Model and linear baseline are fitted and scored as
a run does it; what is shown is the mean over the splits, and the difference with twice its standard
error over the splits. The second table changes one default at a time back to what it could be.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import polars as pl

from page import write_section
from qualities.sets import TARGETS, read_set
from real import FOLDER
from trainwright.contract.sections.metric import METRICS
from trainwright.core.formatting import show_number
from trainwright.core.progress import StopFlag
from trainwright.data.base.inputs import Floats
from trainwright.data.base.row_storage import spread_rows
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import answers_of
from trainwright.run.learners.learner import build_learner
from trainwright.run.prepare.prepare_run import Ready, make_ready
from trainwright.run.request import Request
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StageTimes, StreamScreen
from trainwright.tracking.run_folder import RunFolder

SEEDS, ROWS = 6, 6000

Score = dict[str, float]
"""The contract's metric of `model` and `linear`, and the seconds of the model's training."""


@final
@dataclass(frozen=True)
class Workload:
    """A real set: what its contract says beside the model, and how many rows are drawn."""

    name: str
    data: Mapping[str, object] = field(default_factory=dict)
    metric: Mapping[str, object] = field(default_factory=dict)
    rows: int = ROWS


def _categories(*names: str) -> dict[str, object]:
    return {name: {"kind": "categorical"} for name in names}


WORKLOADS = {
    "telco": Workload("telco", {"exclude": ["customerID"]}),
    "titanic": Workload("titanic", {"exclude": ["PassengerId", "Name", "Ticket"]}),
    "adult": Workload("adult", {"exclude": ["fnlwgt"]}),
    "elec2": Workload("elec2"),
    "penguins": Workload("penguins"),
    "california": Workload("california"),
    "bike": Workload("bike", {"exclude": ["instant", "dteday", "casual", "registered"]}),
    "parkinsons": Workload(
        "parkinsons",
        {"exclude": ["motor_UPDRS"], "split": {"kind": "group", "column": "subject#"}},
    ),
    "insteval": Workload(
        "insteval",
        {"exclude": ["rownames"], "columns": _categories("s", "d", "dept")},
        rows=20_000,
    ),
    "sms": Workload("sms", {"columns": {"text": {"kind": "text"}}}),
}
_BANKING = Workload("banking77", {"columns": {"text": {"kind": "text"}}}, rows=10_003)
_SLOTS = Workload(
    "bike_slots",
    {
        "exclude": ["instant", "dteday", "casual", "registered", "hr", "weekday"],
        "columns": _categories("slot"),
    },
)
_TREES = "{kind: boosting, feature_fraction: 1.0, bagging_fraction: 1.0, lambda_l2: 0.0}"
_MAE, _PINBALL = {"name": "mae"}, {"name": "pinball", "quantile": 0.9}


@final
@dataclass(frozen=True)
class Alternative:
    """A default beside one other value of its, given as overrides; `base` are those of both."""

    work: Workload
    default: str
    other: tuple[str, ...]
    base: tuple[str, ...] = ()
    seeds: int = SEEDS


_LINEAR = ("model={kind: linear}",)
ALTERNATIVES = (
    *(
        Alternative(WORKLOADS[name], "trees that see 0.8 of rows and columns", (f"model={_TREES}",))
        for name in ("telco", "titanic", "adult", "elec2", "california", "bike", "insteval")
    ),
    *(
        Alternative(
            Workload(name, WORKLOADS[name].data, metric),
            f"objective: auto ({metric['name']})",
            ("model.objective=squared_error",),
        )
        for name in ("california", "bike")
        for metric in (_MAE, _PINBALL)
    ),
    Alternative(WORKLOADS["insteval"], "by_count", ("data.features.categorical=codes",)),
    Alternative(WORKLOADS["insteval"], "by_count", ("data.features.categorical=target",)),
    Alternative(_SLOTS, "by_count", ("data.features.categorical=codes",)),
    Alternative(_SLOTS, "by_count", ("data.features.categorical=target",)),
    Alternative(WORKLOADS["adult"], "by_count", ("data.features.categorical=both",)),
    Alternative(WORKLOADS["sms"], "text.terms: 2,000", ("data.features.text.terms=300",)),
    Alternative(
        WORKLOADS["sms"], "linear, text.terms: 20,000", ("data.features.text.terms=300",), _LINEAR
    ),
    Alternative(
        _BANKING, "linear, text.terms: 20,000", ("data.features.text.terms=300",), _LINEAR, seeds=3
    ),
    Alternative(_BANKING, "linear, penalty: 0.1", ("model.penalty=1.0",), _LINEAR, seeds=3),
    Alternative(
        _BANKING,
        "linear",
        ("model={kind: boosting, max_trees: 60, early_stopping_rounds: 10}",),
        _LINEAR,
        seeds=1,
    ),
)


def contract_of(work: Workload, folder: Path) -> Path:
    """The contract of a set, with its rows beside it."""
    frame = _read(work.name)
    frame[spread_rows(frame.height, work.rows)].write_csv(folder / f"{work.name}.csv")
    target = {"bike_slots": "cnt", "insteval": "y"}.get(work.name) or TARGETS[work.name]
    numeric = work.name in ("california", "bike", "bike_slots", "parkinsons", "insteval")
    path = folder / f"{work.name}-{work.metric.get('name', 'auto')}.yaml"
    data = {"path": f"{work.name}.csv", "target": target, **work.data}
    document = {
        "task": "regression" if numeric else "classification",
        "data": data,
        "model": {"kind": "boosting"},
        "metric": dict(work.metric),
    }
    path.write_text(json.dumps(document))
    return path


def _read(name: str) -> pl.DataFrame:
    if name == "insteval":
        return pl.read_csv(FOLDER / "insteval-ratings" / "InstEval.csv", infer_schema=False)
    if name == "bike_slots":
        slot = pl.concat_str(["weekday", "hr"], separator="-").alias("slot")
        return read_set("bike").with_columns(slot)
    return read_set(name)


def score(contract: Path, seed: int, words: Sequence[str] = (), linear: bool = False) -> Score:
    """The metric of the test rows of one split."""
    words = (*words, f"seed={seed}", f"split_seed={seed}")
    screen = StreamScreen(io.StringIO())
    ready = make_ready(Request(contract, words), StageTimes(), screen)
    with tempfile.TemporaryDirectory() as folder:
        run = RunContext(RunFolder.create(Path(folder), "run"), (), screen, StopFlag())
        started = time.perf_counter()
        fitted = build_learner(ready.plan).fit(ready.prepared, run)
        seconds = time.perf_counter() - started
    found = {"model": _value(ready, fitted.predictor.score_part(ready.prepared.test))}
    if linear:
        baselines = fit_baselines(ready.prepared, ready.plan.contract.data)
        found["linear"] = _value(ready, baselines.linear.score_part(ready.prepared.test))
    return {**found, "seconds": seconds}


def _value(ready: Ready, scores: Floats) -> float:
    part, target = ready.prepared.test, ready.prepared.target
    answers = answers_of(part.target, scores, getattr(target, "positive", 0))
    metric = ready.plan.contract.metric
    return measure(metric.name, answers, metric)


@final
@dataclass(frozen=True)
class Compared:
    """Two scores on each split, and the metric by which the first should be better."""

    metric: str
    one: Sequence[float]
    other: Sequence[float]

    @property
    def gain(self) -> float:
        """How much better the first is in the mean; negative where it is worse."""
        sign = 1 if METRICS[self.metric].direction == "max" else -1
        return sign * statistics.mean(a - b for a, b in zip(self.one, self.other, strict=True))

    @property
    def noise(self) -> float:
        """Twice the standard error of the difference; infinite for one split."""
        apart = [a - b for a, b in zip(self.one, self.other, strict=True)]
        if len(apart) < 2:
            return float("inf")
        return float(2 * statistics.stdev(apart) / len(apart) ** 0.5)

    def cells(self) -> str:
        means = (statistics.mean(self.one), statistics.mean(self.other))
        noise = "" if self.noise == float("inf") else f" ± {show_number(self.noise)}"
        shown = " | ".join(show_number(value) for value in means)
        return f"{shown} | {self.gain:+.4g}{noise}"


def _metric_of(contract: Path) -> str:
    ready = make_ready(Request(contract), StageTimes(), StreamScreen(io.StringIO()))
    return ready.plan.contract.metric.name


def against_linear(works: Sequence[Workload], folder: Path, seeds: int) -> Iterator[str]:
    """A row for each set."""
    yield (
        "| set | rows | metric | model | linear | gain | seconds of training | "
        "not below the linear one |"
    )
    yield "| --- " * 8 + "|"
    for work in works:
        contract = contract_of(work, folder)
        found = [score(contract, seed, linear=True) for seed in range(seeds)]
        both = [[one[who] for one in found] for who in ("model", "linear")]
        metric = _metric_of(contract)
        compared = Compared(metric, *both)
        rows = sum(1 for _ in (folder / f"{work.name}.csv").open()) - 1
        seconds = statistics.mean(one["seconds"] for one in found)
        met = "yes" if compared.gain >= -compared.noise else "no"
        cells = f"{work.name} | {rows:,} | {metric} | {compared.cells()} | {seconds:.1f} | {met}"
        print(cells, flush=True)
        yield f"| {cells} |"


def against_others(others: Sequence[Alternative], folder: Path, seeds: int) -> Iterator[str]:
    """A row for each default and another value of it."""
    yield "| set | metric | default | instead | with the default | instead | gain |"
    yield "| --- " * 7 + "|"
    for one in others:
        contract = contract_of(one.work, folder)
        scores = [
            [score(contract, seed, words)["model"] for seed in range(min(seeds, one.seeds))]
            for words in (one.base, (*one.base, *one.other))
        ]
        metric = _metric_of(contract)
        other = ", ".join(word.removeprefix("data.features.") for word in one.other)
        cells = f"{one.work.name} | {metric} | {one.default} | `{other}` | "
        cells += Compared(metric, *scores).cells()
        print(cells, flush=True)
        yield f"| {cells} |"


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="splits of each set")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        first = "\n".join(against_linear(list(WORKLOADS.values()), folder, given.seeds))
        second = "\n".join(against_others(ALTERNATIVES, folder, given.seeds))
    about = " ".join((__doc__ or "").splitlines()[2:]).strip()
    how = f"{given.seeds} splits of at most {ROWS:,} rows (insteval 20,000, banking77 all)."
    if given.write:
        text = f"{about}\n\n{how}\n\n{first}\n\n{second}"
        write_section("default_models", "Default models", text, ["lightgbm", "scikit-learn"])


if __name__ == "__main__":
    main()
