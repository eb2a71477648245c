"""Observers of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, final

from trainwright.core.errors import StorageFailed
from trainwright.tracking.events import Event


class Observer(Protocol):
    """Watches a run and cannot steer it.

    An implementation ignores events that it does not know, so that a new one needs no change here.
    It must not modify an event, must not synchronise with the device at every step, and raises
    `StorageFailed` or `OSError`, and nothing else, if it cannot record.
    """

    def observe(self, event: Event) -> None:
        """Receive one event."""
        ...


@final
class Observers:
    """Forwards events to several observers, in order.

    One that cannot record does not stop the run: its failures are counted, and the first of each is
    reported. Any other error is a bug and ends the run, unless `survived` says otherwise.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        announce: Callable[[str], None],
        survived: tuple[type[Exception], ...] = (StorageFailed, OSError),
    ) -> None:
        self._observers = tuple(observers)
        self._announce = announce
        self._survived = survived
        self._failures = [0] * len(self._observers)

    @property
    def failures(self) -> int:
        """Number of times an observer could not record."""
        return sum(self._failures)

    def observe(self, event: Event) -> None:
        """Forward to every observer."""
        for index, observer in enumerate(self._observers):
            try:
                observer.observe(event)
            except self._survived as error:
                self._count(index, error)

    def _count(self, index: int, error: Exception) -> None:
        self._failures[index] += 1
        if self._failures[index] == 1:
            name = type(self._observers[index]).__name__
            why = str(error) or type(error).__name__
            self._announce(f"{name} cannot record and the training goes on: {why}")
