"""What one rank asks of all, carried to them by the packet of a step: to stop, to save, to make
fewer steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from trainwright.core.progress import Progress
from trainwright.distributed.strategy import Packet, Strategy
from trainwright.engine.save_interval import Due
from trainwright.engine.stopping.stop_rules import StopReason, StopRule, TimeLimit

_BUDGET, _INTERRUPTED = 1, 2
"""Endings that a clock or a signal of one rank decides."""


@final
class RankRequests:
    """Makes rules that look at a clock or a signal decide for all ranks alike when to stop or save,
    and how many steps fit into the time.

    Most stop rules depend on the progress and on numbers of all ranks, and so give every rank the
    same reason. A clock or a signal handler does not: its answer is a request, which the packet of
    the next step carries to all ranks, and which takes effect after that step. Clocks are asked on
    rank 0; a signal may reach any rank. A single process asks its rules directly.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._is_alone = strategy.world_size == 1
        self._is_first = strategy.rank == 0
        self.stop = self.save = self.length = 0
        self.told_stop = self.told_length = 0
        self.told_save = False

    def carried_by(self, reduce: Callable[[Packet], Packet]) -> Callable[[Packet], Packet]:
        """`Strategy.reduce`, with the pending requests of this rank added to its packet, and those
        of all ranks noted."""

        def exchange(packet: Packet) -> Packet:
            asked = packet._replace(stop=self.stop, save=self.save, length=self.length)
            told = reduce(asked)
            if told.stop:
                self.told_stop = told.stop
            if told.length:
                self.length, self.told_length = 0, told.length
            if told.save:
                self.save, self.told_save = 0, True
            return told

        return reduce if self._is_alone else exchange

    def clock(self, limit: TimeLimit) -> StopRule:
        """The time limit, by the clock of rank 0."""
        return limit if self._is_alone else _SharedLimit(limit, self, self._is_first)

    def signal(self, rule: StopRule) -> StopRule:
        """Stop rule that looks at a signal, asked on every rank."""
        return rule if self._is_alone else _RequestedStop(rule, self)

    def clocked_save(self, due: Due) -> Due:
        """Save schedule that looks at the clock, asked on rank 0."""
        return due if self._is_alone else _RequestedSave(due, self, self._is_first)

    def signalled_save(self, due: Due) -> Due:
        """Save on a signal, asked on every rank."""
        return due if self._is_alone else _RequestedSave(due, self, True)


@final
class _SharedLimit:
    def __init__(self, limit: TimeLimit, requests: RankRequests, is_first: bool) -> None:
        self._limit = limit
        self._requests = requests
        self._is_first = is_first

    def reason(self, progress: Progress) -> StopReason | None:
        """The reason, once all ranks know it; before it, the steps that fit."""
        requests, limit, step = self._requests, self._limit, progress.step
        if requests.told_length:
            limit.shorten(step, requests.told_length)
            requests.told_length = 0
        if self._is_first:
            used = limit.used_seconds()
            requests.length = limit.count_fitting(step, used)
            if limit.is_used_up(used):
                requests.stop = max(requests.stop, _BUDGET)
        is_over = limit.is_made(step) or requests.told_stop == _BUDGET
        return limit.reason_at(step) if is_over else None


@final
class _RequestedStop:
    def __init__(self, rule: StopRule, requests: RankRequests) -> None:
        self._rule = rule
        self._requests = requests
        self._text = "requested on another rank"

    def reason(self, progress: Progress) -> StopReason | None:
        """The reason, once all ranks know it."""
        found = self._rule.reason(progress)
        if found is not None:
            self._text = found.text
            self._requests.stop = max(self._requests.stop, _INTERRUPTED)
        told = self._requests.told_stop == _INTERRUPTED
        return StopReason("interrupted", self._text) if told else None


@final
class _RequestedSave:
    def __init__(self, due: Due, requests: RankRequests, asks_here: bool) -> None:
        self._due = due
        self._requests = requests
        self._asks_here = asks_here

    def due(self, progress: Progress) -> bool:
        """Due once all ranks know it."""
        told, self._requests.told_save = self._requests.told_save, False
        # A clock is still due in the step whose save it asked for.
        if not told and self._asks_here and self._due.due(progress):
            self._requests.save = 1
        return told
