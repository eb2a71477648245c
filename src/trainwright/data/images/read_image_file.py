"""Bounded reads of the files of images, optionally compressed, inside their folder."""

from __future__ import annotations

import gzip
import math
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast, final

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import show_bytes
from trainwright.core.limits import MOST_EXPANSION, MOST_IMAGE_BYTES
from trainwright.data.formats.encodings import free_expansion, most_expanded
from trainwright.data.images.decode import ImageFault
from trainwright.data.images.raw_images import ImageRequest

_GZIP = b"\x1f\x8b"

DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, OSError)
"""What a read from `unpacked` raises for a file that is cut off or damaged."""


_BLOCK = 2**20


class TooMuch(Exception):
    """A compressed file expands beyond its limit."""

    def __init__(self, unpacked: int) -> None:
        self.unpacked = unpacked
        super().__init__(f"{unpacked:,} bytes")


@final
class BoundedReader:
    """A stream that gives at most `most` bytes at once, since a header that claims more is an
    attempt to fill the memory, and at most `in_all`, since a packed one may unpack without end."""

    def __init__(self, stream: BinaryIO, most: int, in_all: float = math.inf) -> None:
        self._stream = stream
        self._most = most
        self._in_all = in_all

    def read(self, count: int) -> bytes:
        """The next `count` bytes, fewer at the end.

        Raises:
            ValueError: more are asked for than allowed. TooMuch: the file unpacks to too much.
        """
        if not 0 <= count <= self._most:
            raise ValueError(f"a header claims {count:,} bytes at once")
        data = self._stream.read(count)
        if self._in_all < math.inf and self.tell() > self._in_all:
            raise TooMuch(self.tell())
        return data

    def seek(self, position: int) -> int:
        """Go to a position, forward in a packed file.

        Raises:
            TooMuch: as `read`.
        """
        if self._in_all == math.inf:
            return self._stream.seek(position)
        while (left := position - self.tell()) > 0 and self.read(min(left, _BLOCK)):
            pass
        return self.tell()

    def tell(self) -> int:
        """The position in the unpacked bytes."""
        return self._stream.tell()


@contextmanager
def unpacked(asked: ImageRequest, most: int) -> Iterator[BoundedReader]:
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
                size = os.fstat(stream.fileno()).st_size
                packed = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
                yield BoundedReader(packed, most, most_expanded(size))
            else:
                yield BoundedReader(stream, most)
    except TooMuch as error:
        raise DataMistake(_too_much(error.unpacked, asked)) from error
    except FileNotFoundError:
        raise DataMistake(_mistake("there is no such file", asked.written, asked)) from None
    except (IsADirectoryError, PermissionError) as error:
        said = f"the file cannot be read: {error.strerror}"
        raise DataMistake(_mistake(said, asked.written, asked)) from error


def damaged(kind: str, found: str, asked: ImageRequest) -> DataMistake:
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


def _too_much(done: int, asked: ImageRequest) -> Problem:
    return Problem(
        "the file unpacks to far more than its size",
        path=asked.path,
        found=f"{show_bytes(done)} and more from {show_bytes(asked.file.stat().st_size)}",
        expected=f"at most {MOST_EXPANSION:g} times its size, or {show_bytes(free_expansion())}",
        fix=f"if the file is trusted, unpack it (gunzip {asked.written}) and name what comes out",
        place=Place(asked.written),
    )


def _mistake(message: str, found: str, asked: ImageRequest) -> Problem:
    return Problem(
        message,
        path=asked.path,
        found=found,
        expected="a file with images",
        fix="copy the file again, or correct the path",
        place=Place(asked.written),
    )


def read_inside(path: Path, root: Path) -> bytes | ImageFault:
    """The bytes of a regular file that lies, when every link is followed, inside `root`, which has
    been resolved."""
    try:
        real = path.resolve()
        inside = real.is_relative_to(root)
    except (OSError, ValueError, RuntimeError) as error:
        return ImageFault(
            "this is no path of a file",
            found=repr(str(path))[:200],
            expected="the path of an image",
            fix=f"correct it ({type(error).__name__})",
            droppable=False,
        )
    if not inside:
        return ImageFault(
            "the path leads out of its folder",
            found=f"{str(path)[:200]} -> {real}",
            expected=f"a file inside {root}",
            fix="copy the image into the folder, or name a folder that holds all of them",
            droppable=False,
        )
    return read_image_file(real)


def read_each_inside(names: Iterable[str], root: Path) -> Iterator[bytes | ImageFault]:
    """`read_inside` of each name below `root`. The links of a folder are followed once for all of
    its files that follow each other, which takes half of the time of reading small files."""
    folder, real = "", root
    for name in names:
        above, _, last = name.rpartition("/")
        if name.startswith("/") or "\0" in name or last in ("", ".", ".."):
            yield read_inside(root / name, root)
            continue
        if above != folder:
            folder, real = above, _resolved(root / above)
        file = real / last
        if file.is_symlink() or not real.is_relative_to(root):
            yield read_inside(root / name, root)
        else:
            yield read_image_file(file)


def _resolved(folder: Path) -> Path:
    """Where a folder really is; nowhere, if its links have no end."""
    try:
        return folder.resolve()
    except (OSError, ValueError, RuntimeError):
        return Path()


def too_large(size: int) -> ImageFault:
    """A record that is refused by its size alone."""
    return ImageFault(
        "the file is too large for an image",
        found=f"{size:,} bytes",
        expected=f"at most {MOST_IMAGE_BYTES:,}",
        fix="remove it, or save it smaller",
    )


def read_image_file(real: Path) -> bytes | ImageFault:
    """The bytes of a file that is no link, pipe or device."""
    try:
        # Without waiting: a named pipe would hold the reader for ever.
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return ImageFault("there is no such file", fix="correct the path, or put the file there")
    except (OSError, ValueError) as error:
        return ImageFault(
            f"the file cannot be read: {getattr(error, 'strerror', '') or error}",
            fix="check its rights",
        )
    try:
        return _regular_bytes(descriptor)
    finally:
        os.close(descriptor)


def _regular_bytes(descriptor: int) -> bytes | ImageFault:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        return ImageFault(
            "this is no file",
            found="a folder" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket",
            expected="the file of an image",
            fix="remove it",
            droppable=False,
        )
    if status.st_size > MOST_IMAGE_BYTES:
        return too_large(status.st_size)
    # Opened once the kind is known: Python opens no folder.
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        return stream.read(MOST_IMAGE_BYTES)
