"""Terminal-safe text: control characters are replaced by visible ones."""

from __future__ import annotations

import re

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
# Control characters of C0 and C1 except tab and newline; line separators; bidirectional marks;
# surrogate halves.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def show_safely(text: str) -> str:
    """`text` without characters that move, color, rename or hide anything on a terminal.

    Letters of every script, accents, emoji and their joiners stay.
    """
    return _STEERING.sub(_REPLACEMENT, text)


def escape_in_json(text: str) -> str:
    """JSON text with the same characters as `\\u` escapes: its value is unchanged."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
