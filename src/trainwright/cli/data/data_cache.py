"""`data cache`: list and remove cached data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.box import ROUNDED
from rich.table import Table
from rich.text import Text

from trainwright.cli.render import results_console, say, show_json
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import show_bytes
from trainwright.data.sources.cache import Cache, CacheEntry, cache_folder

_KEY_LETTERS = 12


def show_cache(*, as_json: bool) -> None:
    """Print every entry, the oldest first, and the total size."""
    cache = Cache(cache_folder())
    entries = cache.entries()
    if as_json:
        show_json({"folder": str(cache.folder), "entries": [_json(entry) for entry in entries]})
        return
    console = results_console()
    table = Table(box=ROUNDED if console.is_terminal else None, pad_edge=console.is_terminal)
    table.add_column("key", no_wrap=True)
    table.add_column("kept", no_wrap=True)
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("since", no_wrap=True)
    table.add_column("read from", overflow="fold")
    for entry in entries:
        since = datetime.fromtimestamp(entry.written, UTC)
        table.add_row(
            entry.key[:_KEY_LETTERS],
            entry.shelf,
            show_bytes(entry.size_bytes),
            f"{since:%Y-%m-%d %H:%M}",
            Text(entry.name),
        )
    if entries:
        console.print(table)
    say("kept", f"{show_bytes(_size(entries))} in {cache.folder}")


def clear_kept(keys: Sequence[str], *, as_json: bool) -> None:
    """Remove the entries with this key prefix, or all of them.

    Raises:
        Mistake: no key has this prefix.
    """
    cache = Cache(cache_folder())
    known = [entry.key for entry in cache.entries()]
    unknown = [key for key in keys if not key or not any(k.startswith(key) for k in known)]
    if unknown:
        raise Mistake(
            Problem(
                "nothing is kept under this key",
                path="KEY",
                found=", ".join(map(repr, unknown)),
                expected="the beginning of a key that `trainwright data cache list` shows",
                fix="list them",
            )
        )
    gone = cache.clear(frozenset(keys or ("",)))
    if as_json:
        show_json({"folder": str(cache.folder), "removed": [_json(entry) for entry in gone]})
    else:
        say("removed", f"{len(gone)} of {len(known)}, {show_bytes(_size(gone))}")


def _json(entry: CacheEntry) -> Json:
    return {
        "key": entry.key,
        "kept": entry.shelf,
        "name": entry.name,
        "size_bytes": entry.size_bytes,
    }


def _size(entries: Sequence[CacheEntry]) -> int:
    return sum(entry.size_bytes for entry in entries)
