"""Both sides of a split, as the audit tests compare them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import polars as pl

from trainwright.contract.sections.data.split import Split, TimeSplit
from trainwright.data.base.table import Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.finding import row_numbers_of


@final
@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of the split: training rows and held-out rows (validation and test).

    `train_places` and `places` are their positions in the data; `columns` are the features;
    `target` is String labels or numbers; `given`: the parts came in separate files.
    """

    train: pl.DataFrame
    held_out: pl.DataFrame
    train_places: Integers
    places: Integers
    columns: tuple[ColumnType, ...]
    target: str
    split: Split
    given: bool

    @property
    def is_classes(self) -> bool:
        """Is the target a class?"""
        return self.train[self.target].dtype == pl.String

    @property
    def without_lags(self) -> Sides:
        """Without the columns that are lags of the target."""
        lagged = self.lags
        return replace(self, columns=tuple(c for c in self.columns if c.name not in lagged))

    @property
    def lags(self) -> dict[str, int]:
        """Under a time split, the lag (in rows) of columns that are lags of the target."""
        if not isinstance(self.split, TimeSplit):
            return {}
        from trainwright.data.statistics.lag_detection import lags

        return lags(self.train, self.of_kind("numeric"), self.target, self.split.moment)

    def held_out_rows(self, chosen: Integers) -> tuple[int, ...]:
        """Positions of held-out rows in the data."""
        return row_numbers_of(self.places[chosen])

    def of_kind(self, *kinds: str) -> tuple[str, ...]:
        """The names of the features of these kinds."""
        return tuple(column.name for column in self.columns if column.kind in kinds)
