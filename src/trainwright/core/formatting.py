"""Human-readable quantities, and text that a terminal shows safely."""

from __future__ import annotations

import math
import re

_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

_WRITTEN_OUT = 1e9
"""Numbers from here on are written with an exponent."""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Control characters of C0 and C1 except tab and newline; line separators; bidirectional marks;
# surrogate halves.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def show_bytes(count: float) -> str:
    """`1536` -> `1.5 KiB`."""
    size = float(count)
    for unit in _BYTE_UNITS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_BYTE_UNITS[-1]}"


def show_seconds(seconds: float) -> str:
    """`75` -> `1m15s`; under ten seconds with one decimal."""
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{left:02d}s" if minutes else f"{left}s"


def show_price(price: float) -> str:
    """Two decimals; more for small prices; empty if unknown."""
    if not math.isfinite(price):
        return ""
    return f"{price:,.2f}" if price >= 1 else f"{price:.2g}"


def show_count(count: float) -> str:
    """`1234567` -> `1.23M`; below ten thousand with thousands separators."""
    if abs(count) < 10_000:
        return f"{count:,.0f}"
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(count) >= limit:
            return f"{count / limit:.3g}{unit}"
    raise AssertionError("every count of ten thousand and more has a unit")


def many(count: int, one: str, several: str = "") -> str:
    """`1, "row"` -> `1 row`; `1200, "row"` -> `1,200 rows`. `several` is the plural if it is not
    `one` with an s."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def show_number(value: float) -> str:
    """A metric's value with at most four significant decimals; none for large values, an exponent
    for very large ones."""
    if math.isnan(value):
        return "nan"
    size = abs(value)
    if math.isfinite(value) and size >= _WRITTEN_OUT:
        return f"{value:.2e}"
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.2f}"
    return f"{value:.4f}" if size >= 0.001 or size == 0 else f"{value:.2e}"


def show_safely(text: str) -> str:
    """`text` without characters that move, color, rename or hide anything on a terminal.

    Letters of every script, accents, emoji and their joiners stay.
    """
    return _STEERING.sub(_REPLACEMENT, text)


def escape_in_json(text: str) -> str:
    """JSON text with the same characters as `\\u` escapes: its value is unchanged."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
