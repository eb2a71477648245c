"""Cache of decoded images as one memory-mapped array.

The key in the cache is made of the records (names, labels, groups and the bytes of every file), of
the rule that makes arrays of them and of the library that decodes, so other data has another key.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Literal, final

import numpy as np
import PIL
import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json, hash_value
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Bytes, ImageInputs, Undecoded
from trainwright.data.encoders.pixel_statistics import ALL_WIDE, OPEN_WIDE, Rule
from trainwright.data.formats.arrow_files import open_arrow
from trainwright.data.images.decode import Header, ImageFault, decode, examine_file, measure_wide
from trainwright.data.images.raw_images import PictureSource, Record, writable
from trainwright.data.sources.cache import PIXELS, RECORDS, Tables
from trainwright.data.sources.source_file import FileVersion

_SCHEME = 3
_MOST_PROBLEMS = 20
_MOST_NAMED = 100
_CHUNK_ROWS = 64
_CHUNK_BYTES = 64 * 2**20
_SCHEMA = {
    "name": pl.String,
    "label": pl.String,
    "group": pl.String,
    "height": pl.Int32,
    "width": pl.Int32,
    "format": pl.String,
}
_OF_SAMPLE = {"sha256": pl.String, "decoded": pl.Boolean}
"""What the records of a sample say too: the hash of each file, and whether it was decoded."""

_HASH_DIGITS = 32


@final
@dataclass(frozen=True, slots=True)
class DecodedImages:
    """The images of a source, mapped, and a row for each in `records` (name, label, group, height
    and width as found, and format). `dropped` counts images that could not be read, `dropped_names`
    has the first of them; `rule` has the size that they are of, and `exceeding` counts images of 16
    bits outside of its range."""

    inputs: ImageInputs
    records: pl.DataFrame
    version: FileVersion
    rule: Rule
    dropped: int
    dropped_names: tuple[str, ...]
    exceeding: int

    @property
    def notes(self) -> list[str]:
        """What is said of images outside of the range of the training files."""
        if not self.exceeding:
            return []
        low, high = self.rule.wide
        return [
            f"{self.exceeding:,} of {many(self.records.height, 'image')} with pixels of 16 bits "
            f"outside {low:,} to {high:,}, the range of the training files: cut to its ends"
        ]


def keep_images(
    source: PictureSource,
    rule: Rule,
    corrupt: Literal["fail", "drop"],
    cache: Tables,
    most: int = sys.maxsize,
) -> DecodedImages:
    """Read, decode and keep the images of a source, or find them kept. Of more than `most`, as many
    are drawn and decoded, and headers and ends of the others looked at.

    The source is read once to know its content, and again only if it is not in the cache.

    Raises:
        DataMistake: images that cannot be read, the first 20 of them; under `drop` only if none is
            left, or if a path, link or device is an attempt. StorageFailed: the disk.
    """
    content = _Content()
    ends: list[int] = []
    for record in _writable(source):
        content.add(record)
        if rule.wide == OPEN_WIDE and isinstance(record.data, bytes):
            ends = sorted((*ends, *(measure_wide(record.data, rule.most_pixels) or ())))
            ends = [*ends[:1], *ends[1:][-1:]]
    if rule.wide == OPEN_WIDE:
        rule = replace(rule, wide=(ends[0], ends[-1]) if ends[:1] < ends[1:] else ALL_WIDE)
    if not content.rows:
        raise DataMistake(_nothing(source, "no image is there"))
    settings = {"scheme": _SCHEME, "pillow": PIL.__version__, "corrupt": corrupt, **rule.to_json()}
    chosen = frozenset(range(content.rows))
    if content.rows > most:
        settings["sample"] = most
        chosen = _draw(content.rows, most)
    key = hash_value({"content": content.digest(), "settings": settings})
    build = partial(_build, source, rule, corrupt, content, chosen)
    folder, entry = cache.entry("images", key, source.written, build)
    version = FileVersion(source.written, content.digest(), content.size, 0)
    # Where nothing is kept the folder goes with `cache`; what is mapped stays.
    return _open(folder, entry, rule, version)


def _draw(count: int, most: int) -> frozenset[int]:
    """So many of the places below `count`, the same each time. They are drawn: at equal distances
    no two would be neighbours, and copies often are."""
    return frozenset(np.random.default_rng(0).choice(count, most, replace=False).tolist())


@final
class _Content:
    """The hash of records as they pass."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.rows = 0
        self.size = 0

    def add(self, record: Record) -> str:
        """Take a record in; SHA-256 of its file, empty for none."""
        own, said = "", ""
        if isinstance(record.data, ImageFault):
            said = record.data.message
        else:
            own = hashlib.sha256(record.data).hexdigest()
            self.size += len(record.data)
        for text in (record.name, record.label, record.group, own, said):
            data = text.encode()
            self._hash.update(len(data).to_bytes(8, "little") + data)
        self.rows += 1
        return own

    def digest(self) -> str:
        """SHA-256 of all that was taken in."""
        return self._hash.hexdigest()


@final
class _Building:
    """What is known while records become arrays. `size` is (0, 0) until it is known."""

    def __init__(self, rule: Rule, corrupt: Literal["fail", "drop"], stream: IO[bytes]) -> None:
        self.size = rule.size
        self.rows = 0
        self.decoded = 0
        self.problems: list[Problem] = []
        self.dropped = self.exceeding = 0
        self.names: list[str] = []
        self.frames: list[pl.DataFrame] = []
        self._rule = rule
        self._drops = corrupt == "drop"
        self._stream = stream

    def take(
        self, chunk: list[Record], made: Iterable[_Made | ImageFault], hashes: Iterable[str]
    ) -> None:
        """Write the images of a chunk."""
        rows: list[tuple[object, ...]] = []
        for record, one, own in zip(chunk, made, hashes, strict=True):
            fault = one if isinstance(one, ImageFault) else self._other_size(one)
            if fault is not None or isinstance(one, ImageFault):
                assert fault is not None
                self._refuse(record, fault)
                continue
            header = one.header
            self.decoded += len(one.pixels)
            self.exceeding += header.exceeds
            self._stream.write(one.pixels.tobytes())
            found = (header.height, header.width, header.format)
            told = (record.name, record.label, record.group)
            rows.append((*told, *found, own, bool(len(one.pixels))))
        self.rows += len(rows)
        if rows:
            self.frames.append(pl.DataFrame(rows, schema=_SCHEMA | _OF_SAMPLE, orient="row"))

    def _other_size(self, made: _Made) -> ImageFault | None:
        height, width = made.size(self._rule)
        self.size = self.size if self.size[0] else (height, width)
        if self.size == (height, width):
            return None
        return ImageFault(
            "the image has another size than the ones before it",
            found=f"{height} x {width}",
            expected=f"{self.size[0]} x {self.size[1]} (height x width)",
            fix=f"set data.decoding.size, for example [{self.size[0]}, {self.size[1]}]",
            droppable=False,
        )

    def _refuse(self, record: Record, fault: ImageFault) -> None:
        """Count an image that cannot be read, or keep its problem, as the contract says."""
        if self._drops and fault.droppable:
            self.dropped += 1
            if len(self.names) < _MOST_NAMED:
                self.names.append(record.name)
            return
        fix = f"{fault.fix}; data.decoding.corrupt: drop leaves such images out"
        self.problems.append(
            Problem(
                fault.message,
                found=fault.found or record.name,
                expected=fault.expected,
                fix=fix if fault.droppable else fault.fix,
                place=record.place,
            )
        )


def _build(
    source: PictureSource,
    rule: Rule,
    corrupt: Literal["fail", "drop"],
    expected: _Content,
    chosen: frozenset[int],
    folder: Path,
) -> Json:
    content = _Content()
    workers = min(8, os.cpu_count() or 1)
    with (folder / PIXELS).open("wb") as stream, ThreadPoolExecutor(workers) as pool:
        building = _Building(rule, corrupt, stream)
        for chunk in _chunks(_writable(source), building):
            wanted = [content.rows + place in chosen for place in range(len(chunk))]
            hashes = [content.add(record) for record in chunk]
            building.take(chunk, pool.map(partial(_make, rule), chunk, wanted), hashes)
            if len(building.problems) >= _MOST_PROBLEMS:
                break
    if building.problems:
        raise DataMistake(building.problems[:_MOST_PROBLEMS])
    if content.digest() != expected.digest():
        raise DataMistake(_nothing(source, "the images changed while they were read"))
    if not building.decoded:
        raise DataMistake(_nothing(source, f"none of {len(chosen):,} images can be read"))
    records = pl.concat(building.frames)
    whole = len(chosen) == content.rows
    (records.drop(_OF_SAMPLE) if whole else records).write_ipc(folder / RECORDS)
    return {
        "shape": [building.decoded, 3 if rule.channels == "rgb" else 1, *building.size],
        "dropped": building.dropped,
        "dropped_names": building.names,
        "exceeding": building.exceeding,
    }


def _writable(source: PictureSource) -> Iterator[Record]:
    """The records with texts that can be written as UTF-8: a file's name need not be."""
    for record in source.records():
        name, label, group = (writable(text) for text in record[:3])
        place = replace(record.place, file=writable(record.place.file))
        data = record.data
        if isinstance(data, ImageFault):
            data = replace(data, found=writable(data.found))
        yield Record(name, label, group, data, place)


@final
@dataclass(frozen=True, slots=True)
class _Made:
    """A file that was looked at: its pixels, uint8 [1, C, H, W], or none, [0]."""

    header: Header
    pixels: Bytes

    def size(self, rule: Rule) -> tuple[int, int]:
        """Height and width that a rule gives it."""
        if len(self.pixels):
            height, width = self.pixels.shape[2:]
            return height, width
        return rule.size if rule.size[0] else (self.header.height, self.header.width)


def _make(rule: Rule, record: Record, is_wanted: bool) -> _Made | ImageFault:
    """A decoded image if it is wanted, else what can be said of it without decoding."""
    if isinstance(record.data, ImageFault):
        return record.data
    if not is_wanted:
        header = examine_file(record.data, rule)
        return header if isinstance(header, ImageFault) else _Made(header, np.empty(0, np.uint8))
    decoded = decode(record.data, rule)
    return decoded if isinstance(decoded, ImageFault) else _Made(decoded[1], decoded[0][None])


def _chunks(records: Iterator[Record], building: _Building) -> Iterator[list[Record]]:
    """A few records at a time, the first alone where it decides the size of all."""
    chunk: list[Record] = []
    held = 0
    for record in records:
        chunk.append(record)
        held += 0 if isinstance(record.data, ImageFault) else len(record.data)
        height, width = building.size
        full = max(1, min(_CHUNK_ROWS, _CHUNK_BYTES // max(1, 3 * height * width)))
        if len(chunk) >= full or held > _CHUNK_BYTES or not height:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _open(folder: Path, entry: Json, rule: Rule, version: FileVersion) -> DecodedImages:
    shape = tuple(entry["shape"])
    records = open_arrow(folder / RECORDS)
    inputs = ImageInputs.of(np.memmap(folder / PIXELS, np.uint8, "r", shape=shape))
    if "decoded" in records.columns:
        hashes = records["sha256"].str.head(_HASH_DIGITS).to_list()
        places = np.flatnonzero(records["decoded"].to_numpy())
        undecoded = Undecoded(places, tuple(map(bytes.fromhex, hashes)))
        inputs = ImageInputs(inputs.pixels, np.arange(records.height), undecoded)
    return DecodedImages(
        inputs=inputs,
        records=records.select(*_SCHEMA),
        version=replace(version, rows=records.height),
        rule=rule.sized(shape[2], shape[3]),
        dropped=int(entry["dropped"]),
        dropped_names=tuple(entry["dropped_names"]),
        exceeding=int(entry.get("exceeding", 0)),
    )


def _nothing(source: PictureSource, message: str) -> Problem:
    return Problem(
        message,
        path="data.path",
        found=source.written,
        expected="images that can be read",
        fix="look at the folder or file, or name another one",
        place=Place(source.written),
    )
