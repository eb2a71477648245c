"""Raw image-text pairs, before the split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.core.formatting import many
from trainwright.data.base.table import Integers, PartName
from trainwright.data.images.raw_images import RawImages
from trainwright.data.read_table import DataFacts, Raw


@final
@dataclass(frozen=True, slots=True)
class RawPairs(Raw):
    """Pairs before they are divided: the images of the training table and of the parts that stand
    apart, and the rows of the tables beside them. `codes` int64 [N, 2] are equal where
    images, or captions, of any part are equal."""

    pictures: RawImages
    frames: Mapping[PartName, pl.DataFrame]
    codes: Mapping[PartName, Integers]
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The pairs that are skipped, and those that are no negatives of each other."""
        skipped = [("skipped", note) for note in self.notes]
        every = np.concatenate(list(self.codes.values()))
        images, captions = (shared_rows(every[:, side]) for side in (0, 1))
        if not (images or captions):
            return tuple(skipped)
        said = f"{many(images, 'pair')} share an image and {captions:,} a caption with another"
        return (*skipped, ("equal", f"{said}: these are no negatives of each other"))

    @property
    def decoded_rows(self) -> int:
        """Pairs whose image was decoded."""
        return self.pictures.decoded_rows


def shared_rows(codes: Integers) -> int:
    """Rows whose code another row has, too."""
    _, member, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    return int((sizes[member] > 1).sum())
