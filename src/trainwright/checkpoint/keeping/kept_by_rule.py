"""Checkpoints kept by the retention rule alone, commit by commit."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, KeysView
from itertools import chain, islice
from typing import final

from trainwright.checkpoint.keeping.retention import (
    FEWEST_NEWEST,
    Entry,
    Retention,
    has_score,
    rank,
)


@final
class KeptByRule:
    """Checkpoints that a run would have if it had never been stopped and nothing were pinned: see
    `kept`.

    The rule cannot be applied to what is left of a history: a checkpoint that stays for another
    reason may become the best or the second newest when the run rolls back. So this starts empty
    and replays all commits of a run in order.

    The checkpoints of the current history are ordered by sequence, and thus by step. So the rule
    examines few of them at each commit, however many are kept.
    """

    def __init__(self, retention: Retention) -> None:
        self._retention = retention
        self._by_name: dict[str, Entry] = {}
        self._course: list[Entry] = []
        self._ranked: list[Entry] = []
        """Checkpoints of the current history with a score, best first."""
        self._left: list[Entry] = []
        """Abandoned checkpoints, in order."""
        self._may_go: dict[str, Entry] = {}
        """All except those kept because they are the first of their interval."""

    @property
    def names(self) -> KeysView[str]:
        """Names of the kept checkpoints."""
        return self._by_name.keys()

    def take(self, commit: Entry) -> None:
        """Add a committed checkpoint."""
        self.remove(commit.name)
        at = bisect_left(self._course, _order(commit), key=_order)
        later = self._course[at : at + 1]
        is_left = commit.abandoned or any(entry.step < commit.step for entry in later)
        if not is_left:
            back = bisect_left(self._course, commit.step, hi=at, key=_step)
            for entry in self._course[back:at]:
                self._drop(entry)
                self._add(entry, is_left=True)
            # The next one may no longer be the first of its interval.
            self._may_go.update((entry.name, entry) for entry in later)
        if self._retention.planned(commit.step):
            self._add(commit, is_left=is_left)
        self._let_go()

    def remove(self, name: str) -> None:
        """Remove a checkpoint that is gone, or was replaced."""
        if name in self._by_name:
            self._drop(self._by_name[name])

    def _add(self, entry: Entry, *, is_left: bool) -> None:
        self._by_name[entry.name] = self._may_go[entry.name] = entry
        if is_left:
            insort(self._left, entry, key=_order)
            return
        insort(self._course, entry, key=_order)
        if has_score(entry):
            insort(self._ranked, entry, key=self._rank)

    def _drop(self, entry: Entry) -> None:
        del self._by_name[entry.name]
        self._may_go.pop(entry.name, None)
        _take_out(self._left, entry, _order)
        _take_out(self._course, entry, _order)
        if has_score(entry):
            _take_out(self._ranked, entry, self._rank)

    def _let_go(self) -> None:
        stay = {entry.name for entry in chain(self._newest_and_best(), self._from_before())}
        for name, entry in list(self._may_go.items()):
            if name not in stay:
                if self._is_milestone(entry):
                    del self._may_go[name]
                else:
                    self._drop(entry)

    def _newest_and_best(self) -> Iterator[Entry]:
        """The newest, and the best as of each of them."""
        rule = self._retention
        wanted = max(FEWEST_NEWEST, rule.newest, 0 if self._ranked else rule.best)
        newest = islice(chain(reversed(self._course), reversed(self._left)), wanted)
        for end in newest:
            yield end
            so_far = (entry for entry in self._ranked if entry.sequence <= end.sequence)
            yield from islice(so_far, rule.best)

    def _from_before(self) -> Iterator[Entry]:
        """The first of each interval of `rollback_steps` steps, from the newest back to the first
        that is as old as a rollback of a later step may need."""
        steps, end = self._retention.rollback_steps, len(self._course)
        while steps and end:
            end = self._first_from(self._course[end - 1].step // steps * steps)
            yield self._course[end]
            if self._course[end].step <= self._course[-1].step + 1 - steps:
                return

    def _is_milestone(self, entry: Entry) -> bool:
        """Is it the first of its interval of `every_n_steps` steps, other than the first
        interval?"""
        every = self._retention.every_n_steps
        if every == "off" or entry.step < every:
            return False
        at = self._first_from(entry.step // every * every)
        return self._course[at : at + 1] == [entry]

    def _first_from(self, step: int) -> int:
        """Index of the first checkpoint of the current history at or after a step."""
        return bisect_left(self._course, step, key=_step)

    def _rank(self, entry: Entry) -> tuple[float, int, int]:
        return rank(entry, self._retention.direction)


def _order(entry: Entry) -> tuple[int, int]:
    return entry.sequence, entry.step


def _step(entry: Entry) -> int:
    return entry.step


def _take_out(
    entries: list[Entry], entry: Entry, key: Callable[[Entry], tuple[float, ...]]
) -> None:
    """Remove it if present."""
    at = bisect_left(entries, key(entry), key=key)
    if entries[at : at + 1] == [entry]:
        del entries[at]
