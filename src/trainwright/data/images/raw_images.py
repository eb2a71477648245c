"""Raw images, before the split, and their records as every source streams them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import NOWHERE, Place
from trainwright.core.limits import USUAL_IMAGE_PIXELS
from trainwright.data.base.inputs import ImageInputs, Integers, PartName
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decode import ImageFault
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.random_split import PARTS

UNCHANGED = Rule((0, 0), "rgb", "stretch", "bilinear", USUAL_IMAGE_PIXELS)
"""The rule of images that come as arrays: nothing is decoded."""


class Record(NamedTuple):
    """One image: what it is called (its path, or its key in a shard), its label and group (empty
    for none), the bytes of its file or why there are none, and where it stands."""

    name: str
    label: str
    group: str
    data: bytes | ImageFault
    place: Place = NOWHERE


@final
@dataclass(frozen=True, slots=True)
class ImageRequest:
    """Request for a file of images: the file, its name in the contract or command, where image,
    label and group stand in it, and the contract path to blame. Where it is not `labelled` no label
    is looked for; with `may_be_empty` an image may have none."""

    file: Path
    written: str
    fields: ImageFields
    path: str
    labelled: bool
    may_be_empty: bool = False


class PictureSource(Protocol):
    """Images in an order that is the same each time they are asked for.

    Implementations read as they go and hold a few records at most. What is wrong with a single
    image is a `ImageFault` in its record; what is wrong with the whole source raises `DataMistake`.
    """

    @property
    def written(self) -> str:
        """What the contract, or the command, calls it."""
        ...

    def records(self) -> Iterator[Record]:
        """From the first to the last."""
        ...


def writable(text: str) -> str:
    """A text as UTF-8 can hold it: a byte of a name that is none of it becomes `\\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


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
        """The images that are skipped, and those outside of the range of the training files."""
        return tuple(("skipped" if "skipped" in note else "note", note) for note in self.notes)

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
