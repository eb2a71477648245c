"""Planning of images."""

from __future__ import annotations

from typing import final

from trainwright.contract.sections.data.images import ImageData
from trainwright.planner.kinds.data_planner import DataPlanner, rows_after_split


@final
class ImagePlanner(DataPlanner[ImageData]):
    """Planning of images."""

    def train_rows(self) -> int:
        """As the interface says: exact without groups."""
        from trainwright.data.images.prepare_images import split_of

        return rows_after_split(split_of(self.data), self.facts)
