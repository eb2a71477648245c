"""`runs compare`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from trainwright.cli.output.damage import naming_damage
from trainwright.cli.output.render import (
    say,
    say_whole,
    show_json,
    show_table,
)
from trainwright.cli.runs.runs_list import training_time
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json, to_json
from trainwright.core.formatting import show_number, show_price
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.run.after.compare_runs import Comparison, compare_runs
from trainwright.run.folder.planned_contract import find_run

_LONGEST_VALUE = 40
_MOST_SETTINGS = 30


def show_comparison(names: Sequence[str], runs: Path, output: Path, *, as_json: bool) -> None:
    """Compare judged runs; with `output`, as a page with their curves."""
    folders = [find_run(name, runs) for name in names]
    with naming_damage(*folders):
        compared = compare_runs(folders)
    written = ""
    if output != Path():
        if output.suffix != ".html":
            raise Mistake(
                Problem("a comparison is written as a page", found=str(output), fix="-o FILE.html")
            )
        # Imported here: only the page needs it.
        from trainwright.report.comparison_page import write_comparison

        written = str(write_comparison(compared, folders, output))
    if as_json:
        show_json({**compared.to_json(), **({"page": written} if written else {})})
        return
    _show_metrics(compared)
    _show_settings(compared)
    if written:
        say_whole("page", written)


def _show_metrics(compared: Comparison) -> None:
    first, *others = compared.runs
    columns = ["", *(row.summary.name for row in compared.runs)]
    columns += [f"{row.summary.name} - {first.summary.name}" for row in others]
    rows = [
        [
            metric,
            *(show_number(one.value) for one in values),
            *(_gain(compared, row.summary.name, metric) for row in others),
        ]
        for metric, values in compared.metrics.items()
    ]
    facts = (
        ("verdict", [row.summary.verdict for row in compared.runs]),
        ("model", [row.model for row in compared.runs]),
        ("time", [training_time(row) for row in compared.runs]),
        ("price", [show_price(row.price) for row in compared.runs]),
    )
    blank = [""] * len(others)
    rows += [[name, *values, *blank] for name, values in facts if any(values)]
    show_table(columns, rows, named="first")
    say("interval", f"of the differences, {compared.confidence:.0%}, over the same resamples")
    for name, why in compared.unpaired.items():
        say("note", f"{name} has no differences: {why}", "yellow")


def _gain(compared: Comparison, run: str, metric: str) -> str:
    gain = compared.gains.get(run, {}).get(metric)
    if gain is None or not math.isfinite(gain.value):
        return ""
    return f"{_signed(gain.value)} ({_signed_bounds(gain)})"


def _signed_bounds(gain: Interval) -> str:
    return f"{_signed(gain.low)} to {_signed(gain.high)}" if gain.given else "not enough rows"


def _signed(value: float) -> str:
    return f"+{show_number(value)}" if value > 0 else show_number(value)


def _show_settings(compared: Comparison) -> None:
    if not compared.settings:
        say("contract", "the same")
        return
    rows = [
        [path, *(_short(value) for value in values)]
        for path, values in list(compared.settings.items())[:_MOST_SETTINGS]
    ]
    columns = ["contract", *(row.summary.name for row in compared.runs)]
    show_table(columns, rows, named="first")
    if (more := len(compared.settings) - _MOST_SETTINGS) > 0:
        say("note", f"{more} more settings differ: --json has them all")


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else to_json(value).strip().replace("\n", " ")
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"
