"""IDX files, the format of MNIST and its family: a magic number, sizes, then bytes.

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
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import show_bytes
from trainwright.core.hashing import hash_bytes
from trainwright.core.machine import memory_bytes
from trainwright.data.base.table import Bytes
from trainwright.data.formats.decompress import most_expanded
from trainwright.data.sources.local_files import check_file
from trainwright.data.sources.source_file import FileVersion

_UNSIGNED_BYTE = 8
_GZIP = b"\x1f\x8b"
_MOST_DIMENSIONS = 4


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
