"""Fakes for tests: checkpoints in memory, a clock, observers."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import final

import torch

from trainwright.checkpoint.files.file_entry import name_of
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Kept, Loaded, NoCheckpoint, SaveOutcome
from trainwright.core.files import Json
from trainwright.tracking.events import Event


@final
class MemoryCheckpoints:
    """`CheckpointStore` in memory."""

    def __init__(self) -> None:
        self.kept: list[Loaded] = []

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> SaveOutcome:
        """Store it."""
        name = name_of(step)
        self.kept.append(Loaded(name, step, dict(parts), inventory, score))
        size_bytes = sum(snapshot.size_bytes for snapshot in parts.values())
        return SaveOutcome(name, 0.0, size_bytes, step, score)

    def settled(self, *, wait: bool) -> tuple[Kept, ...]:  # noqa: ARG002
        """Nothing is pending."""
        return ()

    def taking(self) -> AbstractContextManager[None]:
        """Nothing to prepare."""
        return nullcontext()

    def newest_valid(self, up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        """The last one stored, up to a step, or `further` steps before it."""
        fit = [loaded for loaded in self.kept if up_to is None or loaded.step <= up_to]
        old = [loaded for loaded in fit if up_to is not None and loaded.step <= up_to - further]
        return (*fit, *old)[-1] if fit else NoCheckpoint()


@final
class CounterState:
    """A `Stateful` of one tensor and one number."""

    def __init__(self) -> None:
        self.weights = torch.zeros(4)
        self.count = 0

    def advance(self) -> None:
        """Change both."""
        self.weights += 1
        self.count += 1

    def snapshot(self) -> Snapshot:
        """Copy of the state."""
        return Snapshot(tensors={"weights": self.weights}, values={"count": self.count})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        self.weights.copy_(snapshot.tensors["weights"])
        self.count = snapshot.values["count"]


@final
class FakeClock:
    """Stands still until it is advanced; the date can jump without the monotonic seconds."""

    def __init__(self) -> None:
        self._date = datetime(2026, 1, 1, tzinfo=UTC)
        self._seconds = 0.0

    def now(self) -> datetime:
        """The date and time in UTC."""
        return self._date

    def monotonic_seconds(self) -> float:
        """Seconds advanced so far."""
        return self._seconds

    def pass_seconds(self, seconds: float) -> None:
        """Advance the time."""
        assert seconds >= 0, "time does not run backwards"
        self._seconds += seconds
        self._date += timedelta(seconds=seconds)

    def set_date(self, date: datetime) -> None:
        """Set the date, as a user or a time server does."""
        self._date = date


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
