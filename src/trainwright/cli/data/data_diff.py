"""`data diff`: changes between two versions of data, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.box import ROUNDED
from rich.table import Table
from rich.text import Text

from trainwright.cli.render import results_console, say, show_json
from trainwright.core.formatting import show_number
from trainwright.data.base.messages import some
from trainwright.data.statistics.profile import Profile, pictures
from trainwright.data.versions.data_difference import ColumnChange, Difference, RowChanges
from trainwright.run.after.compare_data import difference

_STYLE = {"same": "dim", "moved": "yellow", "retyped": "bold red"}
_MOST_LABELS = 12
_MOST_SETTINGS = 20


def show_difference(a: str, b: str, runs: Path, key: str, *, as_json: bool) -> None:
    """Print the changes from A to B."""
    found = difference(a, b, runs, key)
    if as_json:
        show_json(found.to_json())
        return
    say("versions", f"A {found.names[0]} · B {found.names[1]}")
    say("rows", f"A {found.rows[0]:,} · B {found.rows[1]:,} · {_rows(found.changes)}")
    for label, names in (("added", found.added_columns), ("removed", found.removed_columns)):
        if names:
            say(f"{label}", f"columns {some(names, _MOST_LABELS)}")
    _show_labels(found)
    _show_columns(found.columns)
    for path, before, after in found.settings[:_MOST_SETTINGS]:
        say("setting", f"{path}: {before} -> {after}")


def _rows(changes: RowChanges) -> str:
    if not changes.known:
        return "too many for their hashes to be kept"
    counts = f"{changes.added:,} added · {changes.removed:,} removed"
    if changes.key:
        return f"{counts} · {changes.changed:,} changed · {changes.same:,} same, by {changes.key}"
    return f"{counts} · {changes.same:,} same; a changed row is one removed and one added"


def _show_labels(found: Difference) -> None:
    target = next((one for one in found.columns if one.name == found.target), None)
    if target is None or target.before.kind != "words" or target.after.kind != "words":
        return
    names = sorted({*target.before.values, *target.after.values})
    shown = [
        f"{name} {target.before.values.get(name, 0):,} -> {target.after.values.get(name, 0):,}"
        for name in names
    ]
    say("labels", some(shown, _MOST_LABELS))


def _show_columns(columns: Sequence[ColumnChange]) -> None:
    console = results_console()
    table = Table(box=ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal)
    table.add_column("column", overflow="fold")
    for name in ("distance", "missing", "distinct", "mean"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("A", "B", "what"):
        table.add_column(name, no_wrap=True)
    for one in sorted(columns, key=lambda column: -column.distance):
        before, after = pictures(one.before, one.after)
        table.add_row(
            Text(one.name),
            f"{one.distance:.2f}",
            _pair(f"{one.before.missing:,}", f"{one.after.missing:,}"),
            _pair(f"{one.before.distinct:,}", f"{one.after.distinct:,}"),
            _means(one.before, one.after),
            before,
            after,
            Text(_what(one), style=_STYLE[one.kind]),
        )
    console.print(table)


def _what(one: ColumnChange) -> str:
    return f"{one.before.kind} -> {one.after.kind}" if one.kind == "retyped" else one.kind


def _means(before: Profile, after: Profile) -> str:
    if not before.kind == after.kind == "numbers":
        return ""
    return _pair(show_number(before.mean), show_number(after.mean))


def _pair(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"
