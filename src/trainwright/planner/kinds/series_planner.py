"""Planning of series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.series import SeriesData
from trainwright.core.errors import Problem
from trainwright.planner.kinds.data_planner import DataPlanner

_FEATURE_BYTES, _FEATURES = 12, 60
"""A feature as float64 of the rows and as float32 of the model."""


@final
class SeriesPlanner(DataPlanner[SeriesData]):
    """Planning of series: the rows are forecasts."""

    def train_rows(self) -> int:
        """Forecasts of the training part."""
        return max(1, self.facts.part_rows["train"])

    def encoded_bytes(self) -> int:
        """Of all parts, by a usual number of features."""
        columns = _FEATURES + len(self.facts.columns)
        return 2 * self.train_rows() * columns * _FEATURE_BYTES

    def kinds_of_features(self) -> Mapping[str, str]:
        """The known columns, which keep their names."""
        return {
            one.name: one.kind
            for one in self.facts.columns
            if one.name in self.data.known and one.kind in ("numeric", "categorical")
        }

    def column_problems(self) -> Iterator[Problem]:
        """Those of `model.monotone` are known numeric columns."""
        kinds = self.kinds_of_features()
        numbers = [name for name, kind in kinds.items() if kind == "numeric"]
        for name in self.contract.model.monotone_columns:
            if name not in numbers:
                yield Problem(
                    f"the column {name!r} is no numeric column of data.known",
                    path=f"model.monotone.{as_key(name)}",
                    found=name,
                    expected=f"one of: {', '.join(numbers)}" if numbers else "a known column",
                    fix="remove it, or add the column to data.known",
                )
