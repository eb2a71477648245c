"""Clock, replaceable in tests."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol, final


class Clock(Protocol):
    """Dates for display, and a monotonic count of seconds for durations."""

    def now(self) -> datetime:
        """Date and time in UTC; it may jump when the machine's clock is set."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since some fixed moment; only differences are meaningful."""
        ...


@final
class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """The date and time in UTC."""
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        """Seconds of the kernel's monotonic clock."""
        return time.monotonic()


def show_time(moment: datetime) -> str:
    """`2026-01-31T12:00:00.000Z`: UTC to the millisecond; sorts chronologically as text."""
    utc = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return utc.removesuffix("+00:00") + "Z"
