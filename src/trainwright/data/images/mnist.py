"""The files of the MNIST family, in IDX.

All numbers are big-endian. Byte 3 of the magic number gives the type (8: unsigned byte), byte 4
the number of dimensions, and a 4-byte size follows for each (LeCun, "The MNIST database", file
formats).
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.section import Section
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.core.files import hash_bytes
from trainwright.core.formatting import show_bytes
from trainwright.core.process import memory_bytes
from trainwright.data.base.inputs import Bytes, ImageInputs, Integers, PartName
from trainwright.data.formats.encodings import most_expanded
from trainwright.data.images.raw_images import RawImages, facts_of
from trainwright.data.sources.local_files import check_file
from trainwright.data.sources.source_file import FileVersion

_UNSIGNED_BYTE = 8
_GZIP = b"\x1f\x8b"
_MOST_DIMENSIONS = 4
_PREFIXES: tuple[tuple[PartName, str], ...] = (("train", "train"), ("test", "t10k"))


@final
@dataclass(frozen=True, slots=True)
class IdxFile:
    """Content of an IDX file, uint8 in the shape of its header."""

    values: Bytes
    version: FileVersion


def read_idx(file: Path, written: str, dimensions: int, path: str = "data.path") -> IdxFile:
    """Read an IDX file of unsigned bytes, plain or in gzip (by its first bytes).

    The header is held against the bytes that are there before anything is made of it, and a packed
    file is unpacked no further than its header says.

    Raises:
        DataMistake: it is missing, not IDX, of another number of `dimensions`, cut off or too long.
    """
    check_file(file, written, path)
    if (size := file.stat().st_size) > memory_bytes():
        raise DataMistake(_too_large(size, path, written))
    packed = file.read_bytes()
    stream = _Unpacked(packed, written, path)
    sizes = _sizes(stream, dimensions)
    wanted = math.prod(sizes)
    most = min(most_expanded(len(packed)), memory_bytes())
    if not 0 < wanted <= most:
        raise stream.mistake(
            "the header names impossible sizes",
            found=" x ".join(map(str, sizes)),
            expected=f"between 1 and {most:,} values, from {len(packed):,} bytes",
        )
    data = stream.read(wanted)
    if len(data) < wanted:
        raise stream.mistake(
            "the file ends before its last value",
            found=f"{len(data):,} values",
            expected=f"{' x '.join(map(str, sizes))} = {wanted:,}",
        )
    if stream.read(1):
        raise stream.mistake(
            "the file goes on after its last value", expected=f"{wanted:,} values and no more"
        )
    values = np.frombuffer(data, dtype=np.uint8).reshape(sizes)
    sha256 = hash_bytes(packed)
    version = FileVersion(written, sha256, len(packed), sizes[0], file_sha256=sha256)
    return IdxFile(values, version)


def _too_large(size: int, path: str, written: str) -> Problem:
    return Problem(
        "the file does not fit into memory",
        path=path,
        found=show_bytes(size),
        expected=f"at most {show_bytes(memory_bytes())}",
        fix="write the images as tar shards, which are read one after the other",
        place=Place(written),
    )


def _sizes(stream: _Unpacked, dimensions: int) -> tuple[int, ...]:
    magic = stream.read(4)
    expected = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    if magic != expected:
        idx = len(magic) == 4 and magic[:3] == expected[:3] and 0 < magic[3] <= _MOST_DIMENSIONS
        raise stream.mistake(
            f"the file has {magic[3]} dimensions" if idx else "this is not an IDX file of bytes",
            found=magic.hex(" ") or "nothing",
            expected=f"{expected.hex(' ')} at its start",
        )
    sizes = stream.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise stream.mistake("the header is cut off", expected=f"{dimensions} sizes")
    return struct.unpack(f">{dimensions}I", sizes)


@final
class _Unpacked:
    """The bytes of a file in order, unpacked on demand."""

    def __init__(self, packed: bytes, written: str, path: str) -> None:
        self._written = written
        self._path = path
        stream = io.BytesIO(packed)
        self._stream = gzip.GzipFile(fileobj=stream) if packed.startswith(_GZIP) else stream

    def read(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end."""
        try:
            return self._stream.read(count)
        except EOFError:
            raise self.mistake("the gzip file is cut off") from None
        except (zlib.error, gzip.BadGzipFile) as error:
            raise self.mistake(f"the gzip file is damaged: {error}") from error

    def mistake(self, message: str, found: str = "", expected: str = "") -> DataMistake:
        """A problem of this file."""
        return DataMistake(
            Problem(
                message,
                path=self._path,
                found=found,
                expected=expected,
                fix="copy the file again, or name another one",
                place=Place(self._written),
            )
        )


def read_mnist(section: ImageData, folder: Path) -> RawImages:
    """Read the four files of the folder that the section names. Without the two of the test, all
    parts are cut from the training images.

    Raises:
        DataMistake: every problem of every file at once.
    """
    files: dict[tuple[PartName, str], IdxFile] = {}
    problems = list(_without_effect(section))
    prefixes = _prefixes(folder / section.path)
    for part, prefix in prefixes:
        for what, dimensions in (("images", 3), ("labels", 1)):
            written = _find(folder, section.path, f"{prefix}-{what}-idx{dimensions}-ubyte")
            try:
                files[part, what] = read_idx(folder / written, written, dimensions)
            except Mistake as mistake:
                problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    images = {part: ImageInputs.of(files[part, "images"].values[:, None]) for part, _ in prefixes}
    labels = {part: files[part, "labels"].values.astype(np.int64) for part, _ in prefixes}
    problems = _problems(section, files, labels)
    if problems:
        raise DataMistake(problems)
    names = section.classes or tuple(str(code) for code in range(_codes(labels)))
    versions = tuple(replace(file.version, part=part) for (part, _), file in files.items())
    facts = facts_of(labels, names, versions)
    return RawImages(images, labels, names, facts)


def read_labelled(file: Path) -> tuple[IdxFile, Integers]:
    """Images [N, H, W] of one IDX file, and labels [N] from the file of labels beside it, which has
    the same name with `labels-idx1` for `images-idx3`, with or without `.gz`.

    Raises:
        DataMistake: one of them cannot be read, or they are of different lengths.
    """
    images = read_idx(file, str(file), 3, "DATA")
    plain = file.name.removesuffix(".gz").replace("images-idx3", "labels-idx1")
    beside = file.parent / _find(file.parent, ".", plain)
    if "images-idx3" not in file.name or not beside.is_file():
        raise DataMistake(
            Problem(
                "there is no file of labels for these images",
                path="DATA",
                found=file.name,
                expected="a name with images-idx3, and a file with labels-idx1 beside it",
                fix="put the labels beside the images",
            )
        )
    labels = read_idx(beside, str(beside), 1, "DATA")
    if len(images.values) != len(labels.values):
        raise DataMistake(_lengths(images, labels))
    return images, labels.values.astype(np.int64)


def _prefixes(folder: Path) -> tuple[tuple[PartName, str], ...]:
    """The parts that have files here, by the beginning of their names."""
    return tuple(
        (part, prefix)
        for part, prefix in _PREFIXES
        if part == "train" or any(folder.glob(f"{prefix}-*-idx[13]-ubyte*"))
    )


def _find(folder: Path, path: str, name: str) -> str:
    """The existing file: plain, or with `.gz`."""
    plain = f"{path.rstrip('/')}/{name}"
    return plain if (folder / plain).is_file() else f"{plain}.gz"


def _problems(
    section: ImageData,
    files: Mapping[tuple[PartName, str], IdxFile],
    labels: Mapping[PartName, Integers],
) -> list[Problem]:
    lengths = [
        _lengths(files[part, "images"], files[part, "labels"])
        for part in labels
        if len(files[part, "images"].values) != len(labels[part])
    ]
    absent = _absent(section, files, labels)
    return [*lengths, *_other_sizes(files), *_unnamed(section, labels), *absent]


def _without_effect(section: ImageData) -> Iterator[Problem]:
    """What is written but could change nothing: where the test images are, what a label is and how
    large the images are stand in the files themselves."""
    usual = ImageData(kind="images", path=section.path).for_size(())
    for name in ("val_path", "test_path", "fields", "labels", "decoding"):
        written: object = getattr(section.for_size(()), name)
        if written == getattr(usual, name):
            continue
        found = written
        if isinstance(written, Section):
            found = written.model_dump(exclude_defaults=True)
        yield Problem(
            "this has no effect on the IDX files of the MNIST family",
            path=f"data.{name}",
            found=str(found),
            expected="the IDX files alone",
            fix="remove it, or name a folder of images, a table or shards in data.path",
            place=Place(section.path),
        )


def _other_sizes(files: Mapping[tuple[PartName, str], IdxFile]) -> Iterator[Problem]:
    sizes = {
        part: file.values.shape[1:] for (part, what), file in files.items() if what == "images"
    }
    if sizes["train"] != sizes.get("test", sizes["train"]):
        yield Problem(
            "test images have another size than training images",
            path="data.path",
            found=" x ".join(map(str, sizes["test"])),
            expected=" x ".join(map(str, sizes["train"])),
            fix="scale the images to one size",
            place=Place(files["test", "images"].version.path),
        )


def _unnamed(section: ImageData, labels: Mapping[PartName, Integers]) -> Iterator[Problem]:
    count = _codes(labels)
    if section.classes and count > len(section.classes):
        yield Problem(
            "there are labels without a name",
            path="data.classes",
            found=f"{len(section.classes)} names, labels up to {count - 1}",
            expected=f"{count} names",
            fix="name every label, or remove classes",
        )


def _absent(
    section: ImageData,
    files: Mapping[tuple[PartName, str], IdxFile],
    labels: Mapping[PartName, Integers],
) -> Iterator[Problem]:
    in_training = {int(code) for code in np.unique(labels["train"])}
    absent = sorted({*range(max(_codes(labels), len(section.classes)))} - in_training)
    if absent:
        yield Problem(
            "labels that no training image has",
            path="data.path",
            found=", ".join(map(str, absent[:10])),
            expected="every label from 0 on among the training images",
            fix="number the labels without gaps, or remove their names from data.classes",
            place=Place(files["train", "labels"].version.path),
        )


def _codes(labels: Mapping[PartName, Integers]) -> int:
    return max(int(codes.max()) for codes in labels.values()) + 1


def _lengths(images: IdxFile, labels: IdxFile) -> Problem:
    return Problem(
        "images and labels are not of one number",
        path="data.path",
        found=f"{len(images.values):,} images, {len(labels.values):,} labels",
        expected="a label for each image",
        fix="name files that belong together",
        place=Place(labels.version.path),
    )
