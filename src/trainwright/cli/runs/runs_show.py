"""`runs list`, `compare`, `verify`, `checkpoints`, `pin` and `unpin`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from trainwright.checkpoint.keeping.retention import NotScored
from trainwright.checkpoint.storages.catalog import Listed
from trainwright.cli.arguments import naming_damage
from trainwright.cli.render import results_console, say, say_whole, show_json, show_table
from trainwright.core.errors import EXIT_DONE, Mistake, NoValidCheckpoint, Problem, StorageFailed
from trainwright.core.files import Json, to_json
from trainwright.core.formatting import show_bytes, show_number, show_price, show_seconds
from trainwright.doctor.verify_run import verify_run
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.run.after.compare_runs import Comparison, compare_runs
from trainwright.run.after.pin_checkpoints import checkpoints_of, pin_checkpoint, unpin_checkpoint
from trainwright.run.folder.planned_contract import find_run
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
    searched = any(row.trials for row in rows)
    columns = ["state", "verdict", "model", "metric", "score", "interval", "time"]
    columns += [*(["price"] if priced else []), *(["extended"] if extended else [])]
    columns += ["trials"] if searched else []
    cells = [_cells(row, priced=priced, extended=extended, searched=searched) for row in rows]
    show_table([*columns, "started", "run"], cells)


def _cells(row: RunRow, *, priced: bool, extended: bool, searched: bool) -> list[str]:
    known = math.isfinite(row.score.value)
    on_validation = "validation rows" if row.part == "validation" else row.score.bounds
    return [
        row.summary.state,
        row.summary.verdict,
        row.model,
        row.metric,
        show_number(row.score.value) if known else "",
        on_validation if known else "",
        training_time(row),
        *([show_price(row.price)] if priced else []),
        *([", ".join(row.extended)] if extended else []),
        *([str(row.trials or "")] if searched else []),
        row.summary.started[:19],
        row.summary.name,
    ]


def training_time(row: RunRow) -> str:
    """Empty if the record of a run has no time."""
    return show_seconds(row.seconds) if math.isfinite(row.seconds) else ""


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


_STYLE = {"whole": "green", "note": "yellow", "broken": "bold red"}


def show_verified(run: str, runs: Path, *, as_json: bool) -> int:
    """All findings; the exit code is 0 if nothing is broken, 12 if no checkpoint verifies, else
    13."""
    findings = verify_run(find_run(run, runs))
    if as_json:
        show_json([finding.to_json() for finding in findings])
    else:
        for finding in findings:
            say(finding.status, f"{finding.what} · {finding.message}", _STYLE[finding.status])
    wrong = [finding.what for finding in findings if finding.status == "broken"]
    if not wrong:
        return EXIT_DONE
    return NoValidCheckpoint.exit_code if "checkpoints" in wrong else StorageFailed.exit_code


def show_checkpoints(run: str, runs: Path, *, as_json: bool) -> None:
    """All checkpoints of a run."""
    folder = find_run(run, runs)
    with naming_damage(folder):
        listed = checkpoints_of(folder)
    if as_json:
        show_json([one.to_json() for one in listed])
        return
    if not listed:
        sys.stdout.write(f"no checkpoints in {folder.name}\n")
        return
    show_table(("step", "score", "size", "kept as"), [_row(one) for one in listed])


def keep(run: str, runs: Path, step: int) -> None:
    """Pin a checkpoint."""
    pin_checkpoint(find_run(run, runs), step)
    sys.stdout.write(f"step {step} stays\n")


def let_go(run: str, runs: Path, step: int) -> None:
    """Unpin a checkpoint."""
    unpin_checkpoint(find_run(run, runs), step)
    sys.stdout.write(f"step {step} is no longer pinned\n")


def _row(one: Listed) -> tuple[str, str, str, str]:
    score = "" if isinstance(one.score, NotScored) else show_number(one.score)
    marks = {
        "newest": one.newest,
        "best": one.best,
        "pinned": one.pinned,
        "abandoned by a rollback": one.abandoned,
    }
    kept_as = ", ".join(mark for mark, holds in marks.items() if holds)
    return f"{one.step:,}", score, show_bytes(one.size_bytes), kept_as
