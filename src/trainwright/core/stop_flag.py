"""Requests from outside, raised at any moment and looked at between steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final


@final
class StopFlag:
    """Up once someone outside, a signal handler for example, wants the run to end soon.

    It also carries the wish for a checkpoint now, after which the run goes on.
    """

    def __init__(self) -> None:
        self.why = ""
        self._watched = False
        self._save = False

    def raise_flag(self, why: str) -> None:
        """Ask the run to end after what it is doing now."""
        self.why = why

    @property
    def is_up(self) -> bool:
        """Whether it was raised."""
        return bool(self.why)

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks at it between steps; else there is nothing to finish first."""
        return self._watched

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block somebody looks at it."""
        self._watched = True
        try:
            yield
        finally:
            self._watched = False

    def ask_to_save(self) -> None:
        """Ask for a checkpoint after the current step."""
        self._save = True

    def take_save(self) -> bool:
        """Whether a checkpoint was asked for since the last call."""
        asked, self._save = self._save, False
        return asked
