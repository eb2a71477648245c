"""Image records, streamed from every image source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, final

from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import NOWHERE, Place
from trainwright.data.images.decode import ImageFault


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
