"""Stop and save requests of one rank, carried to all ranks by the packet of a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, final

from trainwright.core.progress import Progress
from trainwright.distributed.strategy import Packet, Strategy
from trainwright.engine.save_interval import Due
from trainwright.engine.stopping.stop_rules import StopReason, StopRule

LocalKind = Literal["budget", "interrupted"]
"""Kinds of ending that a clock or a signal of one rank decides."""

_CODES: dict[LocalKind, int] = {"budget": 1, "interrupted": 2}


@final
class RankRequests:
    """Makes rules that look at a clock or a signal decide for all ranks alike.

    Most stop rules depend on the progress and on numbers of all ranks, and so give every rank the
    same reason. A clock or a signal handler does not: its answer is a request, which the packet of
    the next step carries to all ranks, and which takes effect after that step. Clocks are asked on
    rank 0; a signal may reach any rank. A single process asks its rules directly.
    """

    def __init__(self, strategy: Strategy) -> None:
        self._is_alone = strategy.world_size == 1
        self._is_first = strategy.rank == 0
        self.stop = self.save = 0
        self.told_stop = 0
        self.told_save = False

    def carried_by(self, reduce: Callable[[Packet], Packet]) -> Callable[[Packet], Packet]:
        """`Strategy.reduce`, with the pending requests of this rank added to its packet, and those
        of all ranks noted."""

        def exchange(packet: Packet) -> Packet:
            told = reduce(packet._replace(stop=self.stop, save=self.save))
            if told.stop:
                self.told_stop = told.stop
            if told.save:
                self.save, self.told_save = 0, True
            return told

        return reduce if self._is_alone else exchange

    def clock(self, rule: StopRule) -> StopRule:
        """Stop rule that looks at the clock, asked on rank 0."""
        return rule if self._is_alone else _RequestedStop(rule, "budget", self, self._is_first)

    def signal(self, rule: StopRule) -> StopRule:
        """Stop rule that looks at a signal, asked on every rank."""
        return rule if self._is_alone else _RequestedStop(rule, "interrupted", self, True)

    def clocked_save(self, due: Due) -> Due:
        """Save schedule that looks at the clock, asked on rank 0."""
        return due if self._is_alone else _RequestedSave(due, self, self._is_first)

    def signalled_save(self, due: Due) -> Due:
        """Save on a signal, asked on every rank."""
        return due if self._is_alone else _RequestedSave(due, self, True)


@final
class _RequestedStop:
    def __init__(
        self, rule: StopRule, kind: LocalKind, requests: RankRequests, asks_here: bool
    ) -> None:
        self._rule = rule
        self._kind: LocalKind = kind
        self._requests = requests
        self._asks_here = asks_here
        self._text = "requested on another rank"

    def reason(self, progress: Progress) -> StopReason | None:
        """The reason, once all ranks know it."""
        found = self._rule.reason(progress) if self._asks_here else None
        code = _CODES[self._kind]
        if found is not None:
            self._text = found.text
            self._requests.stop = max(self._requests.stop, code)
        told = self._requests.told_stop == code
        return StopReason(self._kind, self._text) if told else None


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
