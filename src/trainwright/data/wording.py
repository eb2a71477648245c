"""How rows and names are spelled in messages about data."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest(name: str, options: Iterable[str]) -> str:
    """The option spelled most like `name`, ignoring case; empty if none is alike."""
    folded = {option.casefold(): option for option in options}
    found = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else ""


def some(items: Sequence[object], most: int = 5, total: int = 0) -> str:
    """`a, b, c and 4 more`: the first items, and how many of `total` (or of all) are left out."""
    left = max(total, len(items)) - min(most, len(items))
    shown = ", ".join(str(item) for item in items[:most])
    return f"{shown} and {left} more" if left else shown


def quoted(names: Iterable[object], most: int = 5) -> str:
    """Names in quotes, the first few of them."""
    return some([repr(str(name)) for name in names], most)
