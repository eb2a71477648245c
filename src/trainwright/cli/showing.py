"""Results on stdout: as tables for people, as JSON for programs."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from trainwright.core.files import Json, read_json, to_json
from trainwright.core.units import show_number
from trainwright.evaluation.intervals import Interval
from trainwright.evaluation.verdict import Clause
from trainwright.run.evaluate import find_run
from trainwright.run.judged import read_judged
from trainwright.run.result import Result
from trainwright.run.stages import StreamScreen
from trainwright.tracking.folder import list_runs

_STYLE = {"met": "bold green", "missed": "bold red", "undecided": "bold yellow"}
_WIDTH_WITHOUT_TERMINAL = 110


def screen_on_stderr() -> StreamScreen:
    """Where a run speaks."""
    return StreamScreen(sys.stderr)


def show_json(value: Json) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(to_json(value))


def show_result(result: Result, *, as_json: bool) -> None:
    """The verdict, what the model adds to the baselines, and what to do next."""
    if as_json:
        show_json(result.to_json())
        return
    console = _console()
    table = Table(title=f"Verdict of {result.name}", title_justify="left")
    table.add_column("clause")
    for name in ("value", f"{result.evaluation.confidence:.0%} interval"):
        table.add_column(name, justify="right")
    table.add_column("status")
    for clause in result.verdict.clauses:
        table.add_row(*_row(clause))
    console.print(table)
    for line in _against_baselines(result):
        console.print(line, markup=False, highlight=False)
    for warning in result.evaluation.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    status = result.verdict.status
    console.print(Text.assemble("verdict: ", (status.upper(), _STYLE[status])))
    if result.folder.report.is_file():
        console.print(f"report:  {result.folder.report}", markup=False, highlight=False)
    console.print(f"next:    trainwright runs show {result.name}", markup=False, highlight=False)
    console.print(
        f"         trainwright predict {result.name} ROWS.csv -o predictions.csv",
        markup=False,
        highlight=False,
    )


def show_runs(runs: Path, *, as_json: bool) -> None:
    """Every run of a folder."""
    found = list_runs(runs)
    if as_json:
        show_json([run.to_json() for run in found])
        return
    table = Table()
    for name in ("run", "state", "verdict", "started"):
        table.add_column(name)
    for run in found:
        table.add_row(escape(run.name), run.state, run.verdict, run.started)
    _console().print(table if found else f"no runs in {runs}", markup=False)


def show_one_run(run: str, runs: Path, *, as_json: bool) -> None:
    """The state, the record and the verdict of one run."""
    folder = find_run(run, runs)
    record = read_json(folder.record) if folder.record.is_file() else {}
    judged = folder.evaluation.is_file()
    if as_json:
        verdict = read_judged(folder).to_json() if judged else None
        show_json({"run": folder.name, "record": record, "result": verdict})
        return
    console = _console()
    ending = record.get("ending", {})
    lines = {
        "run": folder.name,
        "state": ending.get("state", "not ended"),
        "reason": ending.get("reason", ""),
        "started": record.get("started", ""),
        "seconds": show_number(float(record.get("seconds", 0.0))),
        "commit": record.get("git", {}).get("commit", "none"),
        "data": str(record.get("data_version", ""))[:16],
    }
    for key, value in lines.items():
        console.print(f"{key:8} {value}", markup=False, highlight=False)
    if judged:
        show_result(read_judged(folder), as_json=False)


def _console() -> Console:
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return Console(file=sys.stdout, width=width)


def _row(clause: Clause) -> tuple[Text, str, str, Text]:
    name = clause.name if clause.slice == "all rows" else f"{clause.slice}: {clause.name}"
    return (
        Text(name),
        show_number(clause.interval.value),
        _bounds(clause.interval),
        Text(clause.status, style=_STYLE[clause.status]),
    )


def _bounds(interval: Interval) -> str:
    if not interval.given:
        return "not enough rows"
    return f"{show_number(interval.low)} to {show_number(interval.high)}"


def _against_baselines(result: Result) -> list[str]:
    """The contract's metric of the model beside that of each baseline."""
    metric = result.verdict.clauses[0].metric
    value = result.evaluation.metrics[metric].value
    shown = [f"{metric}: model {show_number(value)}"]
    shown += [
        f"{name} {show_number(metrics[metric].value)}"
        for name, metrics in result.evaluation.baselines.items()
        if metric in metrics
    ]
    return [" · ".join(shown)]
