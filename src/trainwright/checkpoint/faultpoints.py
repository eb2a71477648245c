"""Named moments of a save at which a test can stop the process."""

from __future__ import annotations

from typing import Literal

FaultPoint = Literal[
    "open", "write", "manifest", "before_rename", "after_rename", "ledger", "pointers", "retention"
]


def reached(point: FaultPoint) -> None:
    """Do nothing; a test replaces this function."""
