"""Sanitising of untrusted text, and number formats of the page."""

from __future__ import annotations

import math
import re
import unicodedata

from trainwright.core.formatting import show_number
from trainwright.evaluation.intervals.bootstrap import Interval

NOTHING = "–"
_ROOM = 400
_TAIL = 12
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_STRANGE = "\N{REPLACEMENT CHARACTER}"
_JOINERS = "\u200c\u200d"
# Control, format (including bidirectional marks), surrogate, private and unassigned characters,
# line and paragraph separators: none is visible.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, room: int = _ROOM) -> str:
    """One line of at most `room` visible characters; invisible ones are replaced by escapes. Long
    text is shortened in the middle, since names often differ only at the end."""
    if len(text) > room:
        text = f"{text[: room - _TAIL - 1]}…{text[-_TAIL:]}"
    return "".join(map(_shown, text))


def clean_lines(text: str, room: int) -> str:
    """`clean` each line of a longer text, truncated to a total of `room` characters."""
    cut = text if len(text) <= room else f"{text[:room]}\n…"
    return "\n".join(clean(line, max(room, _ROOM)) for line in cut.splitlines())


def _shown(letter: str) -> str:
    if letter in "\t\n":
        return " "
    if letter in _JOINERS:
        return letter
    return _STRANGE if unicodedata.category(letter) in _UNSHOWN else letter


def show_value(value: float) -> str:
    """A value, or a dash if undefined."""
    if not math.isfinite(value):
        return NOTHING
    return show_number(value).replace("-", "−") if value < 0 else show_number(value)


def show_change(value: float) -> str:
    """A difference, with its sign."""
    return f"+{show_value(value)}" if math.isfinite(value) and value > 0 else show_value(value)


def show_range(interval: Interval) -> str:
    """`0.91 to 0.93`; a dash without an interval."""
    if not interval.given:
        return NOTHING
    return f"{show_value(interval.low)} to {show_value(interval.high)}"


def show_share(share: float) -> str:
    """`0.1234` -> `12.3%`; small shares are never shown as 0."""
    if not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}"


def show_when(time: str) -> str:
    """`2026-01-02T03:04:05.678Z` -> `2026-01-02 03:04:05 UTC`; other text unchanged."""
    match = _TIME.fullmatch(time)
    return f"{match[1]} {match[2]} UTC" if match else time


def count_text(count: int, one: str, many: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {one if count == 1 else many}"
