"""Table of runs: model, score with interval, verdict, time and price of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, final

from trainwright.contract.sections.metric import METRICS
from trainwright.core.files import Json, read_json
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.tracking.lock import read_holder
from trainwright.tracking.run_folder import RunFolder
from trainwright.tracking.run_list import (
    STUDY,
    RunState,
    RunSummary,
    list_runs,
    list_studies,
    summarise_run,
)

SortKey = Literal["started", "name", "model", "score", "time", "price"]

_UNKNOWN = Interval(math.nan, -math.inf, math.inf)
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


@final
@dataclass(frozen=True, slots=True)
class RunRow:
    """A run, with the score of its contract's metric on the rows of `part`: of a run that is fitted
    and not judged the validation rows. Unknown values are empty or nan; `price` is in the currency
    of the contract's price per hour, `extended` lists the extensions after each earlier ending. Of
    a search it is the row of its winner, with the time and the number of all `trials`."""

    summary: RunSummary
    model: str
    metric: str
    score: Interval
    seconds: float
    price: float
    extended: tuple[str, ...] = ()
    part: str = ""
    trials: int = 0

    def to_json(self) -> Json:
        """Strict JSON; unknown values are null."""
        return {
            **self.summary.to_json(),
            "model": self.model,
            "metric": self.metric,
            "score": self.score.to_json(),
            "part": self.part,
            "seconds": _or_null(self.seconds),
            "price": _or_null(self.price),
            "extended": list(self.extended),
            "trials": self.trials,
        }


@final
@dataclass(frozen=True, slots=True)
class RunFilter:
    """Filter of runs; an empty text matches all."""

    verdict: str = ""
    state: str = ""
    model: str = ""
    name: str = ""

    def takes(self, row: RunRow) -> bool:
        """Does a run match? `name` may be a part of its name."""
        return (
            self.verdict in ("", row.summary.verdict)
            and self.state in ("", row.summary.state)
            and self.model in ("", row.model)
            and self.name in row.summary.name
        )


def list_run_rows(root: Path, wanted: RunFilter, sort: SortKey = "started") -> list[RunRow]:
    """Matching runs and searches of a folder, in order; by score the best first, within each
    metric and part."""
    rows = [_row(RunFolder(root / run.name), run) for run in list_runs(root)]
    rows += [_study_row(path) for path in list_studies(root)]
    return _in_order([row for row in rows if wanted.takes(row)], sort)


def read_run_row(folder: RunFolder) -> RunRow:
    """Row of a run; a damaged file leaves its part unknown."""
    return _row(folder, summarise_run(folder))


def _study_row(path: Path) -> RunRow:
    """Row of a search: its winner's, with the time of all trials."""
    study, trials = _content(path / STUDY), path / "trials"
    winner = read_run_row(RunFolder(trials / str(study.get("run", "0000"))))
    ended = [one for one in trials.glob("*.json") if one.stem.isdigit()]
    state: RunState = "finished" if "run" in study else "interrupted"
    if read_holder(path / "lock").is_alive_here():
        state = "running"
    verdict = winner.summary.verdict if "run" in study else ""
    summary = RunSummary(path.name, state, verdict, winner.summary.started)
    row = replace(winner, summary=summary, trials=len(ended), seconds=_number(study.get("seconds")))
    return row if "run" in study else replace(row, score=_UNKNOWN, part="")


def _row(folder: RunFolder, summary: RunSummary) -> RunRow:
    plan, record = _content(folder.plan), _content(folder.record)
    metric, score, part = _score(folder, record)
    return RunRow(
        summary=summary,
        model=_model(plan, folder),
        metric=metric,
        score=score,
        seconds=_number(record.get("seconds")),
        price=_number(record.get("price")),
        extended=_extended(plan),
        part=part,
    )


def _content(path: Path) -> dict[str, Json]:
    try:
        content = read_json(path)
    except _DAMAGED:
        return {}
    return content if isinstance(content, dict) else {}


def _model(plan: dict[str, Json], folder: RunFolder) -> str:
    if folder.own_target.is_file():
        return "own"
    try:
        return str(plan["contract"]["model"]["kind"])
    except _DAMAGED:
        return "script" if folder.settings.exists() else ""


def _extended(plan: dict[str, Json]) -> tuple[str, ...]:
    try:
        return tuple(str(one["by"]) for one in plan.get("extensions", []))
    except _DAMAGED:
        return ()


def _score(folder: RunFolder, record: dict[str, Json]) -> tuple[str, Interval, str]:
    """Metric, value and part: of the evaluation, or of the ending of a fit."""
    try:
        if not folder.evaluation.is_file():
            ((metric, value),) = record["ending"]["validation"].items()
            return str(metric), Interval(float(value), -math.inf, math.inf), "validation"
        content = read_json(folder.evaluation)
        metric = str(content["verdict"]["clauses"][0]["metric"])
        evaluation = content["evaluation"]
        return metric, Interval.from_json(evaluation["metrics"][metric]), str(evaluation["part"])
    except _DAMAGED:
        return "", _UNKNOWN, ""


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _in_order(rows: Sequence[RunRow], sort: SortKey) -> list[RunRow]:
    keys: dict[SortKey, Callable[[RunRow], tuple[object, ...]]] = {
        "started": lambda row: (row.summary.started, row.summary.name),
        "name": lambda row: (row.summary.name,),
        "model": lambda row: (row.model, row.summary.name),
        "score": _by_score,
        "time": lambda row: _last_if_unknown(row.seconds),
        "price": lambda row: _last_if_unknown(row.price),
    }
    return sorted(rows, key=keys[sort])


def _by_score(row: RunRow) -> tuple[object, ...]:
    value = row.score.value
    if not row.metric or math.isnan(value):
        return (True, "", "", 0.0)
    return (False, row.metric, row.part, -value if _is_better_higher(row.metric) else value)


def _is_better_higher(metric: str) -> bool:
    return metric in METRICS and METRICS[metric].direction == "max"


def _last_if_unknown(value: float) -> tuple[object, ...]:
    return (math.isnan(value), 0.0 if math.isnan(value) else value)
