"""What a check of something written found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from trainwright.core.files import Json

WRONG_SHAPE = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""What reading something raises that is not what was written."""


@final
@dataclass(frozen=True, slots=True)
class Checked:
    """One finding: `whole` is as it was written, a `note` is no damage, `broken` is."""

    what: str
    status: Literal["whole", "note", "broken"]
    message: str

    def to_json(self) -> Json:
        """The fields by name."""
        return {"what": self.what, "status": self.status, "message": self.message}


def whole(what: str, message: str) -> Checked:
    """Something is as it was written."""
    return Checked(what, "whole", message)


def note(what: str, message: str) -> Checked:
    """Something that a person may want to know."""
    return Checked(what, "note", message)


def broken(what: str, message: str) -> Checked:
    """Something is not as it was written."""
    return Checked(what, "broken", message)
