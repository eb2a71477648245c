"""Planning of image-text pairs."""

from __future__ import annotations

from typing import final

from trainwright.contract.sections.data.pairs import PairData
from trainwright.planner.kinds.data_planner import DataPlanner, rows_after_split


@final
class PairPlanner(DataPlanner[PairData]):
    """Planning of image-text pairs."""

    def train_rows(self) -> int:
        """As the interface says: exact where each image has one caption."""
        from trainwright.data.pairs.prepare_pairs import split_of_pairs

        return rows_after_split(split_of_pairs(self.data), self.facts)
