"""Retention: which checkpoints are kept, a pure function of their scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, final

from trainwright.contract.sections.metric import Direction
from trainwright.core.files import Json

FEWEST_NEWEST = 2


@dataclass(frozen=True, slots=True)
class NotScored:
    """The state was saved without a validation."""


NOT_SCORED: Final = NotScored()


def score_to_json(score: float | NotScored) -> Json:
    """A finite number, `nan`, `inf` or `-inf` as a string, or null."""
    if isinstance(score, NotScored):
        return None
    return score if math.isfinite(score) else repr(score)


def score_from_json(value: Json) -> float | NotScored:
    """Inverse of `score_to_json`.

    Raises:
        ValueError: not a score.
    """
    if value is None:
        return NOT_SCORED
    if isinstance(value, bool) or not (isinstance(value, float | int) or _is_name(value)):
        raise ValueError(f"{value!r} is not a score")
    return float(value)


def _is_name(value: Json) -> bool:
    return value in ("nan", "inf", "-inf")


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed checkpoint. `sequence` counts the commits of a run and never decreases.

    `abandoned`: the run went back to an earlier step after it, so it belongs to a discarded
    history.
    """

    sequence: int
    name: str
    score: float | NotScored = NOT_SCORED
    step: int = 0
    abandoned: bool = False


def at_any_step(step: int) -> bool:  # noqa: ARG001
    """Every checkpoint is planned."""
    return True


@final
@dataclass(frozen=True, slots=True)
class Retention:
    """Retention rule beyond the best checkpoint: see `kept_names`.

    `planned` says whether the run saves at a step on schedule. Other checkpoints were requested, or
    written on an interruption: they serve to resume from and decide nothing, so that an interrupted
    run rolls back to the same step as an unbroken one. `rollback_steps` is the largest number of
    steps that a rollback may undo at once.
    """

    best: int = 3
    newest: int = FEWEST_NEWEST
    every_n_steps: int | Literal["off"] = "off"
    direction: Direction = "min"
    planned: Callable[[int], bool] = at_any_step
    rollback_steps: int = 0


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


def best_first(history: Sequence[Entry], direction: Direction) -> list[Entry]:
    """Scored entries, best first; of equal scores the earlier one is better.

    A non-finite score is no score, and an abandoned checkpoint is no candidate: neither is ever
    ranked.
    """
    scored = [entry for entry in history if has_score(entry) and not entry.abandoned]
    return sorted(scored, key=lambda entry: rank(entry, direction))


def has_score(entry: Entry) -> bool:
    """Is its score a finite number?"""
    return not isinstance(entry.score, NotScored) and math.isfinite(entry.score)


def rank(entry: Entry, direction: Direction) -> tuple[float, int, int]:
    """Sort key of a scored entry: smaller is better."""
    assert not isinstance(entry.score, NotScored)
    return (entry.score if direction == "min" else -entry.score, entry.sequence, entry.step)


def newest_first(history: Iterable[Entry]) -> list[Entry]:
    """Order in which they are tried: newest first, abandoned ones last."""
    return sorted(history, key=lambda entry: (not entry.abandoned, entry.sequence), reverse=True)


def kept_names(history: Sequence[Entry], retention: Retention, pinned: Collection[str]) -> set[str]:
    """Names of the checkpoints to keep.

    These are the best by score, the newest (at least two: the second is the fallback if the newest
    does not verify or is rolled back), the best as of each of the newest, the first one at or after
    each multiple of `every_n_steps`, those a rollback may need if saves are more frequent than the
    steps it undoes, and the pinned ones: pinned by the user, or resumed from. While nothing has a
    score, the newest take the slots of the best. An unplanned one stays while it is the newest.
    """
    assert retention.best > 0, "at least the best one is kept"
    any_best = best_first(history, retention.direction)
    wanted = max(FEWEST_NEWEST, retention.newest, 0 if any_best else retention.best)
    planned = [entry for entry in history if retention.planned(entry.step)]
    newest = newest_first(planned)[:wanted]
    others = (*newest_first(history)[:1], *_milestones(planned, retention))
    stay = {entry.name for entry in (*newest, *others, *_from_before(planned, retention))}
    for end in newest:
        so_far = [entry for entry in history if entry.sequence <= end.sequence]
        best = best_first(so_far, retention.direction)[: retention.best]
        stay |= {entry.name for entry in best}
    return stay | (set(pinned) & {entry.name for entry in history})


def with_abandoned(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Entries by name; of two with the same name the later one."""
    by_name = {entry.name: entry for entry in entries}
    left = abandoned(by_name.values())
    return {name: replace(entry, abandoned=name in left) for name, entry in by_name.items()}


def _milestones(history: Sequence[Entry], retention: Retention) -> Iterable[Entry]:
    """First checkpoint of each interval of `every_n_steps` steps except that of step 0."""
    if retention.every_n_steps == "off":
        return ()
    first = _first_of_intervals(history, retention.every_n_steps)
    return [entry for interval, entry in first.items() if interval]


def _from_before(history: Sequence[Entry], retention: Retention) -> Iterable[Entry]:
    """First checkpoint of each interval of `rollback_steps` steps, from the newest interval back to
    the first that is as old as a rollback of a later step may need."""
    if not retention.rollback_steps:
        return
    first = _first_of_intervals(history, retention.rollback_steps)
    newest = max((entry.step for entry in history if not entry.abandoned), default=0)
    for _, entry in sorted(first.items(), reverse=True):
        yield entry
        if entry.step <= newest + 1 - retention.rollback_steps:
            return


def _first_of_intervals(history: Iterable[Entry], steps: int) -> dict[int, Entry]:
    """By interval number; without abandoned ones."""
    first: dict[int, Entry] = {}
    for entry in sorted(history, key=lambda entry: entry.step, reverse=True):
        if not entry.abandoned:
            first[entry.step // steps] = entry
    return first
