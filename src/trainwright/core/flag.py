"""A request to stop, raised from outside and looked at between steps."""

from __future__ import annotations

from typing import final


@final
class StopFlag:
    """Up once someone outside, a signal handler for example, wants the run to end soon."""

    def __init__(self) -> None:
        self.why = ""

    def raise_flag(self, why: str) -> None:
        """Ask the run to end after what it is doing now."""
        self.why = why

    @property
    def is_up(self) -> bool:
        """Whether it was raised."""
        return bool(self.why)
