"""How rows and names are spelled in messages about data."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import final

import polars as pl

_MOST_TOLD = 5


def nearest_option(name: str, options: Iterable[str]) -> str:
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


@final
@dataclass(slots=True)
class Wrong:
    """Values that are wrong: how many, and the first different ones, however many there are."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, values: pl.Series) -> None:
        """Count these too."""
        self.count += len(values)
        if len(self.first) <= _MOST_TOLD:
            names = values.cast(pl.String).fill_null("missing").unique(maintain_order=True)
            new = names.filter(~names.is_in(self.first))
            self.first += new.head(_MOST_TOLD + 1 - len(self.first)).to_list()

    def __str__(self) -> str:
        """The first of them in quotes, and whether there are others."""
        others = " and others" if len(self.first) > _MOST_TOLD else ""
        return quoted(self.first[:_MOST_TOLD]) + others
