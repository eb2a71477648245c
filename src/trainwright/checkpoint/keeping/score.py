"""Score of a checkpoint, if it has one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trainwright.core.files import Json


@dataclass(frozen=True, slots=True)
class NotScored:
    """The state was saved without a validation."""


NOT_SCORED: Final = NotScored()


def score_to_json(score: float | NotScored) -> Json:
    """A finite number, `nan`, `inf` or `-inf` as a string, or null."""
    if isinstance(score, NotScored):
        return None
    return score if math.isfinite(score) else repr(score)


def score_from_json(value: Json) -> float | NotScored:
    """Inverse of `score_to_json`.

    Raises:
        ValueError: not a score.
    """
    if value is None:
        return NOT_SCORED
    if isinstance(value, bool) or not (isinstance(value, float | int) or _is_name(value)):
        raise ValueError(f"{value!r} is not a score")
    return float(value)


def _is_name(value: Json) -> bool:
    return value in ("nan", "inf", "-inf")
