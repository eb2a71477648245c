"""Clock controlled by a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import final


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
