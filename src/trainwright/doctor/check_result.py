"""Results of integrity checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from trainwright.core.files import Json

WRONG_SHAPE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""Exceptions raised on reading corrupt content."""


@final
@dataclass(frozen=True, slots=True)
class Checked:
    """One result: `whole` (intact), `note` (no damage) or `broken` (damaged)."""

    what: str
    status: Literal["whole", "note", "broken"]
    message: str

    def to_json(self) -> Json:
        """The fields by name."""
        return {"what": self.what, "status": self.status, "message": self.message}


def whole(what: str, message: str) -> Checked:
    """An intact item."""
    return Checked(what, "whole", message)


def note(what: str, message: str) -> Checked:
    """An informational note."""
    return Checked(what, "note", message)


def broken(what: str, message: str) -> Checked:
    """A damaged item."""
    return Checked(what, "broken", message)
