"""Formatting of rows and names in messages, and the record of what was done to rows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import final

import polars as pl

from trainwright.contract.sections.data.quality import Action, FindingKind
from trainwright.core.files import Json

_MOST_TOLD = 5

MOST_LISTED = 100_000
"""Limit of the rows listed; `count` still counts all."""


def nearest_option(name: str, options: Iterable[str]) -> str:
    """The option closest to `name`, ignoring case; empty if none is close."""
    folded = {option.casefold(): option for option in options}
    found = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return folded[found[0]] if found else ""


def some(items: Sequence[object], most: int = 5, total: int = 0) -> str:
    """`a, b, c and 4 more`: the first items, and the number omitted of `total` (default: all)."""
    left = max(total, len(items)) - min(most, len(items))
    shown = ", ".join(str(item) for item in items[:most])
    return f"{shown} and {left} more" if left else shown


def quoted(names: Iterable[object], most: int = 5) -> str:
    """The first few names in quotes."""
    return some([repr(str(name)) for name in names], most)


@final
@dataclass(slots=True)
class Wrong:
    """Accumulator of invalid values: their count and the first distinct ones."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, values: pl.Series) -> None:
        """Add values."""
        self.count += len(values)
        if len(self.first) <= _MOST_TOLD:
            names = values.cast(pl.String).fill_null("missing").unique(maintain_order=True)
            new = names.filter(~names.is_in(self.first))
            self.first += new.head(_MOST_TOLD + 1 - len(self.first)).to_list()

    def __str__(self) -> str:
        """The first values in quotes, and whether there are others."""
        others = " and others" if len(self.first) > _MOST_TOLD else ""
        return quoted(self.first[:_MOST_TOLD]) + others


@final
@dataclass(frozen=True, slots=True)
class AppliedAction:
    """Changes of one action: `rows` are 0-based positions in the training file of the first
    `MOST_LISTED` changed rows."""

    kind: FindingKind
    action: Action
    message: str
    count: int
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """The fields by name."""
        return {**asdict(self), "rows": list(self.rows), "columns": list(self.columns)}
