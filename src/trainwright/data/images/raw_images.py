"""Raw images, before the split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
import polars as pl

from trainwright.core.limits import USUAL_IMAGE_PIXELS
from trainwright.data.base.table import ImageInputs, Integers, PartName
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.decoding_rule import Rule
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.fractions import PARTS

UNCHANGED = Rule((0, 0), "rgb", "stretch", "bilinear", USUAL_IMAGE_PIXELS)
"""The rule of images that come as arrays: nothing is decoded."""


@final
@dataclass(frozen=True, slots=True)
class UnreadableImages:
    """Count of unreadable images, and the names of the first ones."""

    count: int
    names: tuple[str, ...]


@final
@dataclass(frozen=True, slots=True)
class RawImages(Raw):
    """Images before they are divided: images and label codes int64 [N] of the training files and of
    the parts that stand apart; `names` are those of the labels. `records` tells, of images from
    files, name, group, size and format of each row; `rule` is how they were decoded. `left_out`
    are images that could not be read."""

    images: Mapping[PartName, ImageInputs]
    labels: Mapping[PartName, Integers]
    names: tuple[str, ...]
    facts: DataFacts
    notes: tuple[str, ...] = ()
    records: Mapping[PartName, pl.DataFrame] = field(default_factory=dict)
    rule: Rule = UNCHANGED
    left_out: Mapping[PartName, UnreadableImages] = field(default_factory=dict)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The images that are skipped."""
        return tuple(("skipped", note) for note in self.notes)

    @property
    def decoded_rows(self) -> int:
        """Images that were decoded."""
        return len(self.decoded()[0])

    @property
    def is_sample(self) -> bool:
        """Whether only a sample of the files was decoded."""
        return any(one.is_sample for one in self.images.values())

    def decoded(self) -> tuple[Integers, list[ImageInputs]]:
        """The places, among the images of the training files and of the parts that stand apart, of
        those that were decoded, and these, a part each."""
        places, found, start = [], [], 0
        for part in PARTS:
            if part in self.images:
                there, inputs = self.images[part].decoded()
                places.append(there + start)
                found.append(inputs)
                start += len(self.images[part])
        return np.concatenate(places), found


def facts_of(
    labels: Mapping[PartName, Integers], names: tuple[str, ...], files: tuple[FileVersion, ...]
) -> DataFacts:
    """Facts about labelled images for the plan."""
    counts = np.bincount(labels["train"], minlength=len(names))
    rows = {part: len(codes) for part, codes in labels.items()}
    classes = dict(zip(names, map(int, counts), strict=True))
    return DataFacts(
        rows=sum(rows.values()),
        columns=(),
        target=TargetFacts("classes", classes, len(names), missing=0),
        files=files,
        given=frozenset(part for part in rows if part != "train"),
        part_rows={str(part): count for part, count in rows.items()},
    )
