"""`explain`: what the model of a run reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainwright.cli.arguments import RUNS, AllowCode, AsJson, RunName, Runs, naming_damage
from trainwright.core.process import code_allowed

if TYPE_CHECKING:
    import polars as pl

    from trainwright.tracking.run_folder import RunFolder

_NO_FILE = Path("-")
_SHOWN_ROWS, _SHOWN_COLUMNS = 3, 5


def explain(
    run: RunName,
    rows: Annotated[
        str,
        typer.Argument(
            metavar="ROWS",
            help="A file with rows: what each column adds to each prediction (trees).",
        ),
    ] = "",
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="OUT", help="With ROWS: .csv, .parquet or .jsonl."),
    ] = _NO_FILE,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=1.0, help="Time for the measurement.")
    ] = 60.0,
    overrides: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="With ROWS, override how the file is read: data.reading.encoding=cp1252.",
        ),
    ] = [],  # noqa: B006  typer reads the default
    runs: Runs = RUNS,
    allow_code: AllowCode = False,
    as_json: AsJson = False,
) -> None:
    """Measure which columns the model of a run relies on, and how predictions follow them.

    On validation rows: what the contract's metric loses when a column is permuted, with intervals;
    partial dependence of the most important columns; SHAP values of trees. Written to
    explanation.json and into the report of the run."""
    from trainwright.run.folder.planned_contract import find_run

    folder = find_run(run, runs)
    with naming_damage(folder), code_allowed(allow_code):
        if rows:
            _explain_rows(folder, rows, output, overrides, as_json=as_json)
        else:
            _refuse_options_of_rows(output, overrides)
            _explain_model(folder, seconds, as_json=as_json)


def _refuse_options_of_rows(output: Path, overrides: list[str]) -> None:
    from trainwright.core.errors import Mistake, Problem

    if output == _NO_FILE and not overrides:
        return
    raise Mistake(
        Problem(
            "no rows are named",
            path="-o" if output != _NO_FILE else "--set",
            expected="a file of rows whose predictions are explained",
            fix="trainwright explain RUN ROWS.csv -o OUT.csv",
        )
    )


def _explain_model(folder: RunFolder, seconds: float, *, as_json: bool) -> None:
    from trainwright.cli.render import say, say_whole, screen_on_stderr, show_json, show_table
    from trainwright.core.formatting import show_number
    from trainwright.evaluation.explanations.explain_model import Effort
    from trainwright.report.page import write_report
    from trainwright.run.after.explain_run import explain_run

    found = explain_run(folder, Effort(seconds=seconds), screen_on_stderr())
    report = write_report(folder)
    if as_json:
        show_json(found.to_json())
        return
    of = f"{found.rows:,} of {found.of:,} {found.part} rows"
    value = f"{found.metric} {show_number(found.value)}"
    say("explained", f"{value} · {of} · {found.repeats} permutations a column")
    has_shap = any(one.mean_contribution == one.mean_contribution for one in found.importances)
    columns = ["loss", f"{found.confidence:.0%} interval", *(["mean |SHAP|"] * has_shap), "column"]
    lines = [
        [
            show_number(one.loss.value),
            one.loss.bounds,
            *([show_number(one.mean_contribution)] * has_shap),
            f"{one.column} (not distinguishable from 0)" if one.includes_zero else one.column,
        ]
        for one in found.importances
    ]
    show_table(columns, lines)
    for note in found.notes:
        say("note", note)
    say_whole("report", str(report))


def _explain_rows(
    folder: RunFolder, rows: str, output: Path, overrides: list[str], *, as_json: bool
) -> None:
    from trainwright.cli.init_predict import check_folder, encode_table, table_kind
    from trainwright.cli.render import show_json
    from trainwright.core.files import write_atomic
    from trainwright.core.formatting import show_safely
    from trainwright.run.after.explain_run import explain_rows

    to_file = output != _NO_FILE
    if to_file:
        kind = table_kind(output, "contributions")
        check_folder(output)
    frame = explain_rows(folder, rows, overrides)
    if to_file:
        write_atomic(output, encode_table(frame, kind))
    if as_json:
        first = frame.head(_SHOWN_ROWS).to_dicts()
        written = str(output) if to_file else ""
        show_json({"rows": frame.height, "output": written, "first": first})
        return
    _show_first(frame)
    if to_file:
        sys.stdout.write(show_safely(f"{frame.height:,} rows of contributions in {output}\n"))


def _show_first(frame: pl.DataFrame) -> None:
    """The largest contributions of the first rows."""
    from trainwright.cli.render import say
    from trainwright.core.formatting import show_number
    from trainwright.evaluation.explanations.contributions import CONTRIBUTION

    for number, row in enumerate(frame.head(_SHOWN_ROWS).iter_rows(named=True), 1):
        added = {
            name.removeprefix(CONTRIBUTION): value
            for name, value in row.items()
            if name.startswith(CONTRIBUTION)
        }
        largest = sorted(added.items(), key=lambda pair: -abs(pair[1]))[:_SHOWN_COLUMNS]
        terms = [
            f"{name} {'+' if value >= 0 else ''}{show_number(value)}" for name, value in largest
        ]
        prediction = row["prediction"]
        shown = show_number(prediction) if isinstance(prediction, float) else str(prediction)
        base = f"base {show_number(row['base'])}"
        say(f"row {number}", " · ".join([f"prediction {shown}", base, *terms]))
