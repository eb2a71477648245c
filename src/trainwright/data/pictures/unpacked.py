"""The bytes of a file that may be packed by gzip, in reads of bounded size."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast, final

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.pictures.records import Asked

_GZIP = b"\x1f\x8b"

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, OSError)
"""What a read from `unpacked` raises for a file that is cut off or damaged."""


@final
class Bounded:
    """A stream that gives at most so many bytes at once: a header that claims more is an attempt to
    fill the memory."""

    def __init__(self, stream: BinaryIO, most: int) -> None:
        self._stream = stream
        self._most = most

    def read(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end.

        Raises:
            ValueError: more are asked for than allowed.
        """
        if not 0 <= count <= self._most:
            raise ValueError(f"a header claims {count:,} bytes at once")
        return self._stream.read(count)

    def seek(self, position: int) -> int:
        """Go to a position, forward in a packed file."""
        return self._stream.seek(position)

    def tell(self) -> int:
        """The position in the unpacked bytes."""
        return self._stream.tell()


@contextmanager
def unpacked(asked: Asked, most: int) -> Iterator[Bounded]:
    """A file's bytes, unpacked if they begin as gzip does.

    Raises:
        DataMistake: there is no such file, or it cannot be opened or is empty.
    """
    try:
        with asked.file.open("rb") as stream:
            begins = stream.read(2)
            stream.seek(0)
            if not begins:
                raise DataMistake(_mistake("the file is empty", "0 bytes", asked))
            if begins == _GZIP:
                yield Bounded(cast(BinaryIO, gzip.GzipFile(fileobj=stream)), most)
            else:
                yield Bounded(stream, most)
    except FileNotFoundError:
        raise DataMistake(_mistake("there is no such file", asked.written, asked)) from None
    except (IsADirectoryError, PermissionError) as error:
        said = f"the file cannot be read: {error.strerror}"
        raise DataMistake(_mistake(said, asked.written, asked)) from error


def damaged(kind: str, found: str, asked: Asked) -> DataMistake:
    """The mistake of a shard that is cut off or no shard."""
    return DataMistake(
        Problem(
            f"the {kind} file is damaged, cut off or no {kind} file",
            path=asked.path,
            found=found[:200],
            expected=f"a whole {kind} file, plain or packed by gzip",
            fix="copy the file again and compare its size with the original",
            place=Place(asked.written),
        )
    )


def _mistake(message: str, found: str, asked: Asked) -> Problem:
    return Problem(
        message,
        path=asked.path,
        found=found,
        expected="a file with images",
        fix="copy the file again, or correct the path",
        place=Place(asked.written),
    )
