"""Which checkpoints stay: a pure rule over the history."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, final

from trainwright.checkpoint.score import NOT_SCORED, NotScored
from trainwright.contract.metric import Direction

_FEWEST_NEWEST = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed checkpoint. `sequence` counts the commits of a run and never falls.

    `abandoned`: the run went back to an earlier step after it, so it is of a course that the run
    no longer takes.
    """

    sequence: int
    name: str
    score: float | NotScored = NOT_SCORED
    step: int = 0
    abandoned: bool = False


@final
@dataclass(frozen=True, slots=True)
class Retention:
    """Which checkpoints are kept beside the best: see `kept`."""

    best: int = 3
    newest: int = _FEWEST_NEWEST
    every_n_steps: int | Literal["off"] = "off"
    direction: Direction = "min"


def abandoned(history: Iterable[Entry]) -> set[str]:
    """Names of the checkpoints after which a run went back: a later one has a smaller step."""
    earliest = math.inf
    names: set[str] = set()
    for entry in sorted(history, key=lambda entry: entry.sequence, reverse=True):
        if entry.abandoned or entry.step > earliest:
            names.add(entry.name)
        else:
            earliest = min(earliest, entry.step)
    return names


def ranked(history: Sequence[Entry], direction: Direction) -> list[Entry]:
    """The scored entries, best first; of equal scores the earlier one is better.

    A score that is not a finite number is no score, and what was abandoned is no candidate: neither
    ever ranks.
    """
    sign = 1.0 if direction == "min" else -1.0
    scored = [
        (sign * entry.score, entry.sequence, entry)
        for entry in history
        if not entry.abandoned
        and not isinstance(entry.score, NotScored)
        and math.isfinite(entry.score)
    ]
    return [entry for _, _, entry in sorted(scored, key=lambda item: item[:2])]


def newest_first(history: Iterable[Entry]) -> list[Entry]:
    """In the order in which they are tried: what was abandoned comes last."""
    return sorted(history, key=lambda entry: (not entry.abandoned, entry.sequence), reverse=True)


def kept(history: Sequence[Entry], retention: Retention, pinned: Collection[str]) -> set[str]:
    """Names of the checkpoints that stay.

    These are the best by score, the newest (at least two: the second is there for the day on which
    the newest does not verify or is rolled back), the best as they were at each of the newest, the
    first one at or after each multiple of `every_n_steps`, and the pinned ones: what a person
    pinned and what the run was resumed from. While nothing has a score, as many of the newest stay
    as else of the best.
    """
    assert retention.best > 0, "at least the best one stays"
    any_best = ranked(history, retention.direction)
    wanted = max(_FEWEST_NEWEST, retention.newest, 0 if any_best else retention.best)
    newest = newest_first(history)[:wanted]
    stay = {entry.name for entry in (*newest, *_milestones(history, retention))}
    for end in newest:
        so_far = [entry for entry in history if entry.sequence <= end.sequence]
        best = ranked(so_far, retention.direction)[: retention.best]
        stay |= {entry.name for entry in best}
    return stay | (set(pinned) & {entry.name for entry in history})


def _milestones(history: Sequence[Entry], retention: Retention) -> Iterable[Entry]:
    """The first checkpoint of each stretch of `every_n_steps` steps; the stretch of step 0 has
    none."""
    if retention.every_n_steps == "off":
        return ()
    first: dict[int, Entry] = {}
    for entry in sorted(history, key=lambda entry: entry.step, reverse=True):
        stretch = entry.step // retention.every_n_steps
        if stretch and not entry.abandoned:
            first[stretch] = entry
    return first.values()
