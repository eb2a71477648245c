"""Results on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, final

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from trainwright.cli.arguments import naming_damage
from trainwright.contract.reading.read_contract import ContractText
from trainwright.core.errors import EXIT_DONE, EXIT_VERDICT_NOT_MET, Mistake
from trainwright.core.files import Json, damage_in, read_json, to_json
from trainwright.core.formatting import escape_in_json, show_number, show_safely, show_seconds
from trainwright.core.process import permission_words
from trainwright.data.dispatch import modality_of
from trainwright.evaluation.experiments.suspects import acceptance
from trainwright.evaluation.verdict import Verdict
from trainwright.predictor.bundle import NOT_DESCRIBED, read_description
from trainwright.predictor.bundle_files import Description, show_signature
from trainwright.run.extend.extendable import describe_extensions, describe_start
from trainwright.run.folder.planned_contract import find_run, read_planned
from trainwright.run.judging.evaluation_file import read_judged
from trainwright.run.request import Request
from trainwright.run.run_context import Result
from trainwright.run.screen import StreamScreen, labelled
from trainwright.tracking.console import LABEL_WIDTH
from trainwright.tracking.run_folder import RunFolder

_MOST_TARGETS = 6
_STYLE = {
    "met": "bold green",
    "missed": "bold red",
    "undecided": "bold yellow",
    "invalid": "bold red",
}
_WIDTH_WITHOUT_TERMINAL = 160


def screen_on_stderr() -> StreamScreen:
    """Where a run reports progress."""
    return StreamScreen(sys.stderr)


def show_json(value: Json) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(escape_in_json(to_json(value)))


def show_result(
    result: Result, following: Sequence[str], *, as_json: bool, of_run: bool = True
) -> None:
    """Improvement over the baselines, the verdict, and the next commands. The report of a run shows
    only what is `of_run`: of its own test rows."""
    if as_json:
        show_json(result.to_json())
        return
    console = results_console()
    if console.is_terminal:
        console.print()
    show_decisive(result.verdict)
    say("scores", _against_baselines(result))
    for number, line in enumerate(_of_each_target(result)):
        say("" if number else "targets", line)
    for warning in result.evaluation.warnings:
        say("warning", warning, "yellow")
    console.print(_verdict_table(result, console))
    status = result.verdict.status
    say("verdict", status.upper(), _STYLE[status])
    if of_run and result.folder.report.is_file():
        say_whole("report", str(result.folder.report))
    for label, line in zip(("next", ""), following, strict=False):
        say_whole(label, line)


def show_decisive(verdict: Verdict) -> None:
    """Why a verdict is invalid, both numbers, and the contract lines that resolve it."""
    for one in verdict.decisive:
        say("INVALID", f"{one.name}: {one.message}", _STYLE["invalid"])
        say("tried", f"{one.numbers}; {one.method}")
        for before, after in zip(verdict.clauses, one.corrected, strict=True):
            if before.status == "met" and after.status != "met":
                again = f"{show_number(after.interval.value)}, {after.interval.bounds}"
                say("", f"{before.name} would be {after.status}: {again}")
        if one.write:
            say_whole("write", one.write)
        say_whole("or accept", acceptance(one.finding, one.columns))


def commands_after_training(folder: Path, result: Result, runs: Path) -> list[str]:
    """The two most useful commands after a training, ready to run. `folder` is where the contract's
    relative paths start."""
    data = read_planned(result.folder).data
    listing = shlex.join(_command("runs", runs, "list"))
    files = modality_of(data.kind).names_of_files(data, folder)
    if not files.at_hand:
        return [listing]
    predict = _command("predict", runs, result.name, files.at_hand, "-o", "predictions.csv")
    return [shlex.join(predict), listing]


def commands_with_a_run(run: str, runs: Path) -> list[str]:
    """Commands for the model of a run; none if only a script has it."""
    folder = find_run(run, runs)
    if folder.has_own_model:
        return []
    data = read_planned(folder).data
    files = modality_of(data.kind).names_of_files(data, Path())
    evaluate = shlex.join(_command("evaluate", runs, run, files.labelled))
    if not files.rows:
        return [evaluate]
    predict = _command("predict", runs, run, files.rows, "-o", "predictions.csv")
    return [shlex.join(predict), evaluate]


def _command(verb: str, runs: Path, *words: str) -> list[str]:
    where = [] if runs == Path("runs") else ["--runs", str(runs)]
    allowing = () if verb == "runs" else permission_words()
    return ["trainwright", verb, *words, *where, *allowing]


def say(label: str, text: str, style: str = "") -> None:
    """Labelled text on stdout; on a terminal its further lines are aligned with the first."""
    console = results_console()
    if not console.is_terminal:
        say_whole(label, text)
        return
    grid = Table.grid()
    grid.add_column(width=LABEL_WIDTH)
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(text, style=style))
    console.print(grid)


def say_whole(label: str, text: str) -> None:
    """Labelled text for copying from the screen: never wrapped."""
    results_console().print(labelled(label, text), markup=False, highlight=False, soft_wrap=True)


def _verdict_table(result: Result, console: Console) -> Table:
    table = Table(box=ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal)
    table.add_column("clause", overflow="fold")
    for name in ("value", f"{result.evaluation.confidence:.0%} interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("status", no_wrap=True)
    for clause in result.verdict.clauses:
        table.add_row(
            Text(clause.name),
            show_number(clause.interval.value),
            clause.interval.bounds,
            Text(clause.status, style=_STYLE[clause.status]),
        )
    return table


def show_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    named: Literal["first", "last"] = "last",
) -> None:
    """Rows of texts below their headings; all columns but the `named` one contain numbers."""
    console = results_console()
    table = Table(box=ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal)
    for position, name in enumerate(columns):
        if position == (0 if named == "first" else len(columns) - 1):
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(text) for text in row))
    console.print(table)


def show_one_run(run: str, runs: Path, *, as_json: bool) -> None:
    """State, record and verdict of one run."""
    folder = find_run(run, runs)
    with naming_damage(folder):
        _show_folder(folder, runs, as_json=as_json)


def _show_folder(folder: RunFolder, runs: Path, *, as_json: bool) -> None:
    record = read_json(folder.record) if folder.record.is_file() else {}
    judged = folder.evaluation.is_file()
    described = _read_described(folder)
    plan = read_json(folder.plan) if folder.plan.is_file() else {}
    if as_json:
        verdict = read_judged(folder).to_json() if judged else None
        shown = {"run": folder.name, "record": record, "result": verdict}
        model = described.to_json() if described else None
        show_json({**shown, "model": model, "extensions": plan.get("extensions", [])})
        return
    with damage_in(folder.record):
        lines = _about_run(folder, record)
    for key, value in lines.items():
        say(key, value)
    for one in describe_extensions(plan):
        say("extended", one)
    if start := describe_start(plan):
        say("began at", start)
    if described:
        say("input", show_signature(described.signature))
    if judged:
        following = commands_with_a_run(folder.name, runs)
        show_result(read_judged(folder), following, as_json=False)


def _about_run(folder: RunFolder, record: Json) -> dict[str, str]:
    ending = record.get("ending", {})
    lines = {
        "run": folder.name,
        "state": ending.get("state", "not ended"),
        "reason": ending.get("reason", ""),
        "started": record.get("started", ""),
        "time": show_seconds(float(record.get("seconds", 0.0))),
        "commit": record.get("git", {}).get("commit", "none"),
        "data": str(record.get("data_version", ""))[:16],
    }
    return {key: str(value) for key, value in lines.items() if value}


def _read_described(folder: RunFolder) -> Description:
    """Description of the run's model; none of an incomplete one, which `runs verify` reports."""
    try:
        return read_description(folder.bundle)
    except Mistake:
        return NOT_DESCRIBED


@final
class SafeConsole(Console):
    """Console that controls its own colors: no text of the data reaches the terminal unescaped."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments with only visible characters."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(show_safely(segment.text), segment.style)


def results_console() -> Console:
    """Console for results: as wide as the terminal, or wide enough for a table without one."""
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return SafeConsole(file=sys.stdout, width=width)


def _of_each_target(result: Result) -> list[str]:
    """The contract's metric of the first of several targets, or where it has no such value the
    first metric of theirs."""
    targets = result.evaluation.targets
    if not targets:
        return []
    judged = result.verdict.clauses[0].metric
    metric = judged if judged in targets[0].metrics else next(iter(targets[0].metrics))
    more = [f"and {len(targets) - _MOST_TARGETS} more in the report"]
    return [
        " · ".join(
            [
                f"{one.name} {metric} {show_number(one.metrics[metric].value)}",
                one.metrics[metric].bounds,
                *(f"{who} {show_number(of[metric].value)}" for who, of in one.baselines.items()),
            ]
        )
        for one in targets[:_MOST_TARGETS]
    ] + (more if len(targets) > _MOST_TARGETS else [])


def _against_baselines(result: Result) -> str:
    """The contract's metric of the model compared with each baseline."""
    metric = result.verdict.clauses[0].metric
    value = result.evaluation.metrics[metric].value
    beside = result.evaluation.show_baselines(metric)
    return " · ".join([f"{metric} · model {show_number(value)}", *beside])


def show_trained(result: Result, request: Request, *, as_json: bool) -> int:
    """Write the report of a judged run, and show its verdict; the exit code."""
    # Imported here: a result without a page has no use for it.
    from trainwright.report.page import write_report

    write_report(result.folder)
    for sinks in result.sinks:
        sinks.finish()
    following = commands_after_training(_folder_of(request.contract), result, request.runs)
    show_result(result, following, as_json=as_json)
    return EXIT_DONE if result.verdict.status == "met" else EXIT_VERDICT_NOT_MET


def _folder_of(contract: Path | ContractText) -> Path:
    """Where the contract's relative paths start, as the caller would write it."""
    return contract.folder if isinstance(contract, ContractText) else contract.parent
