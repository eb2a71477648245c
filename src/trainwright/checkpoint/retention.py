"""Which checkpoints stay: a pure rule over the history."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from trainwright.checkpoint.score import NotScored
from trainwright.contract.metric import Direction

_NEWEST_KEPT = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed checkpoint. `sequence` counts the commits of a run and never falls."""

    sequence: int
    name: str
    score: float | NotScored


def ranked(history: Sequence[Entry], direction: Direction) -> list[Entry]:
    """The scored entries, best first; of equal scores the earlier one is better.

    A score that is not a finite number is no score: it never ranks.
    """
    sign = 1.0 if direction == "min" else -1.0
    scored = [
        (sign * entry.score, entry.sequence, entry)
        for entry in history
        if not isinstance(entry.score, NotScored) and math.isfinite(entry.score)
    ]
    return [entry for _, _, entry in sorted(scored, key=lambda item: item[:2])]


def kept(
    history: Sequence[Entry], keep_top_k: int, direction: Direction, pinned: Collection[str]
) -> set[str]:
    """Names of the checkpoints that stay.

    These are the best `keep_top_k` by score, the newest two (the second is there for the day on
    which the newest does not verify), and the pinned ones: what the run was resumed from. While
    nothing has a score, the newest `keep_top_k` stay.
    """
    assert keep_top_k > 0, "at least the best one stays"
    best = ranked(history, direction)[:keep_top_k]
    newest_first = sorted(history, key=lambda entry: entry.sequence, reverse=True)
    newest = newest_first[: _NEWEST_KEPT if best else max(_NEWEST_KEPT, keep_top_k)]
    names = {entry.name for entry in history}
    return {entry.name for entry in (*best, *newest)} | (set(pinned) & names)
