"""Observers for tests."""

from __future__ import annotations

import errno
from typing import final

from trainwright.tracking.events import Event


@final
class RecordingObserver:
    """Stores every event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def observe(self, event: Event) -> None:
        """Store it."""
        self.events.append(event)


@final
class FullDiskObserver:
    """Cannot record anything."""

    def __init__(self) -> None:
        self.asked = 0

    def observe(self, event: Event) -> None:  # noqa: ARG002
        """Fail like a full disk."""
        self.asked += 1
        raise OSError(errno.ENOSPC, "No space left on device")
