"""`runs list`."""

from __future__ import annotations

import math
from pathlib import Path

from trainwright.cli.output.render import (
    results_console,
    show_json,
    show_table,
)
from trainwright.core.formatting import show_number, show_price, show_seconds
from trainwright.run.folder.run_table import RunFilter, RunRow, SortKey, list_run_rows


def show_runs(runs: Path, wanted: RunFilter, sort: SortKey, *, as_json: bool) -> None:
    """Matching runs of a folder."""
    rows = list_run_rows(runs, wanted, sort)
    if as_json:
        show_json([row.to_json() for row in rows])
        return
    if not rows:
        which = "no runs" if wanted == RunFilter() else "no such runs"
        results_console().print(f"{which} in {runs}", markup=False, highlight=False)
        return
    priced = any(math.isfinite(row.price) for row in rows)
    extended = any(row.extended for row in rows)
    columns = ["state", "verdict", "model", "metric", "score", "interval", "time"]
    columns += [*(["price"] if priced else []), *(["extended"] if extended else [])]
    cells = [_cells(row, priced=priced, extended=extended) for row in rows]
    show_table([*columns, "started", "run"], cells)


def _cells(row: RunRow, *, priced: bool, extended: bool) -> list[str]:
    known = math.isfinite(row.score.value)
    return [
        row.summary.state,
        row.summary.verdict,
        row.model,
        row.metric,
        show_number(row.score.value) if known else "",
        row.score.bounds if known else "",
        training_time(row),
        *([show_price(row.price)] if priced else []),
        *([", ".join(row.extended)] if extended else []),
        row.summary.started[:19],
        row.summary.name,
    ]


def training_time(row: RunRow) -> str:
    """Empty if the record of a run has no time."""
    return show_seconds(row.seconds) if math.isfinite(row.seconds) else ""
