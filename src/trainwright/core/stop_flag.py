"""Stop and save requests, set at any time and checked between steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class StopFlag:
    """Set once something outside, for example a signal handler, requests the run to end soon.

    It also carries the request for a checkpoint, after which the run continues.
    """

    def __init__(self) -> None:
        self.why = ""
        self._watched = False
        self._save = False

    def raise_flag(self, why: str) -> None:
        """Request the run to end after its current operation."""
        self.why = why

    @property
    def is_up(self) -> bool:
        """Was it set?"""
        return bool(self.why)

    @property
    def is_watched(self) -> bool:
        """Is it checked between steps? Otherwise there is nothing to finish first."""
        return self._watched

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block the flag is checked between steps."""
        self._watched = True
        try:
            yield
        finally:
            self._watched = False

    def ask_to_save(self) -> None:
        """Request a checkpoint after the current step."""
        self._save = True

    def take_save(self) -> bool:
        """Was a checkpoint requested since the last call?"""
        asked, self._save = self._save, False
        return asked
