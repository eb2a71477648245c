"""Text of strangers made fit to be shown, and numbers as the page writes them."""

from __future__ import annotations

import math
import re
import unicodedata

from trainwright.core.formatting import show_number
from trainwright.evaluation.intervals import Interval

NOTHING = "–"
_ROOM = 400
_TAIL = 12
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|\+00:00)")
_STRANGE = "\N{REPLACEMENT CHARACTER}"
_JOINERS = "\u200c\u200d"
# Control, format (among them the marks that turn the direction of text), surrogate, private and
# unassigned characters, line and paragraph separators: none of them shows as itself.
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def clean(text: str, room: int = _ROOM) -> str:
    """One line of at most `room` characters, every one of which is shown or stands in for one that
    is not. What is too long loses its middle: names often differ at the end only."""
    if len(text) > room:
        text = f"{text[: room - _TAIL - 1]}…{text[-_TAIL:]}"
    return "".join(map(_shown, text))


def clean_lines(text: str, room: int) -> str:
    """`clean` of each line of a longer text, cut after `room` characters in all."""
    cut = text if len(text) <= room else f"{text[:room]}\n…"
    return "\n".join(clean(line, max(room, _ROOM)) for line in cut.splitlines())


def _shown(letter: str) -> str:
    if letter in "\t\n":
        return " "
    if letter in _JOINERS:
        return letter
    return _STRANGE if unicodedata.category(letter) in _UNSHOWN else letter


def show_value(value: float) -> str:
    """A value, or a dash where it is not defined."""
    if not math.isfinite(value):
        return NOTHING
    return show_number(value).replace("-", "−") if value < 0 else show_number(value)


def show_change(value: float) -> str:
    """A difference, with its sign."""
    return f"+{show_value(value)}" if math.isfinite(value) and value > 0 else show_value(value)


def show_range(interval: Interval) -> str:
    """`0.91 to 0.93`; a dash where no interval could be given."""
    if not interval.given:
        return NOTHING
    return f"{show_value(interval.low)} to {show_value(interval.high)}"


def show_share(share: float) -> str:
    """`0.1234` -> `12.3%`; small shares never become a plain 0."""
    if not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}"


def show_when(time: str) -> str:
    """`2026-01-02T03:04:05.678Z` -> `2026-01-02 03:04:05 UTC`; any other text as it is."""
    match = _TIME.fullmatch(time)
    return f"{match[1]} {match[2]} UTC" if match else time


def count_text(count: int, one: str, many: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{count:,} {one if count == 1 else many}"
