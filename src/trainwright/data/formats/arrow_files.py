"""Arrow files: memory-mapped, and their uncompressed size from metadata.

Messages are flatbuffers (google.github.io/flatbuffers, "FlatBuffer Internals") by the schemas of
github.com/apache/arrow, `format/Message.fbs` and `format/File.fbs`. A packed buffer begins with the
8 bytes of its length.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.limits import CELL_BYTES
from trainwright.data.base.row_storage import map_to_read
from trainwright.data.formats.encodings import check_columns, check_expansion
from trainwright.data.formats.file_format import damaged_file

MAPPED_FROM_BYTES = 16 * 2**20
"""A smaller file is read: that takes less time than loading the library that maps."""

_MAGIC = b"ARROW1"
_CONTINUED = b"\xff\xff\xff\xff"

_KIND, _CONTENT, _BODY_BYTES = 1, 2, 3
"""The fields of a message."""

_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
"""Its kinds."""

_FIELDS = 1
"""The field of a schema that holds those of the table."""


def open_arrow(file: Path, mapped_from: int = MAPPED_FROM_BYTES) -> pl.DataFrame:
    """Rows of an uncompressed Arrow file that is not being written to.

    A large one is mapped where pyarrow is installed: only what is looked at is read, it leaves
    memory with `release_pages`, and processes that look at the same file share it.
    """
    if file.stat().st_size < mapped_from or find_spec("pyarrow") is None:
        return pl.read_ipc(file)
    import pyarrow

    table = pyarrow.ipc.open_file(pyarrow.py_buffer(map_to_read(file))).read_all()
    frame = pl.from_arrow(table, rechunk=False)
    assert isinstance(frame, pl.DataFrame)
    return frame


def check_arrow(file: Path, written: str, reading: Reading) -> None:
    """Check the declared uncompressed size of an Arrow file or stream against its size.

    Raises:
        DataMistake: it has too many columns, unpacks to too much, or is damaged.
    """
    try:
        with file.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            is_file = data[: len(_MAGIC)] == _MAGIC
            schema, batches = _in_file(data) if is_file else _in_stream(data)
            check_columns(schema.length(_FIELDS), written, reading)
            expanded = sum(_expanded(message, data, body) for message, body in batches)
            check_expansion(expanded, len(data), written, reading)
    except (ValueError, IndexError, struct.error) as error:
        raise damaged_file(written, "Arrow", f"its messages cannot be read ({error})") from error


@final
class _Table:
    """A table of a flatbuffer at a position of the bytes; its fields count from 0."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - self._read("<i", at)

    @staticmethod
    def root(data: mmap.mmap, at: int) -> _Table:
        """The table that a buffer begins with."""
        return _Table(data, at + struct.unpack_from("<I", data, at)[0])

    def byte(self, field: int) -> int:
        """A number of 8 bits; 0 if it is not there."""
        at = self._place(field)
        return self._read("<B", at) if at else 0

    def long(self, field: int) -> int:
        """A number of 64 bits; 0 if it is not there."""
        at = self._place(field)
        return self._read("<q", at) if at else 0

    def has(self, field: int) -> bool:
        """Whether a field is there."""
        return bool(self._place(field))

    def table(self, field: int) -> _Table:
        """A table inside this one."""
        at = self._place(field)
        if not at:
            raise ValueError("a message without a content")
        return _Table(self._data, at + self._read("<I", at))

    def length(self, field: int) -> int:
        """How many elements a vector has."""
        return self._vector(field)[1]

    def structures(self, field: int, layout: str) -> Iterator[tuple[int, ...]]:
        """The elements of a vector of structures."""
        start, count = self._vector(field)
        size = struct.calcsize(layout)
        if start + count * size > len(self._data):
            raise ValueError(f"a vector of {count:,}")
        yield from struct.iter_unpack(layout, self._data[start : start + count * size])

    def _vector(self, field: int) -> tuple[int, int]:
        at = self._place(field)
        if not at:
            return 0, 0
        at += self._read("<I", at)
        return at + 4, self._read("<I", at)

    def _place(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry >= self._read("<H", self._fields):
            return 0
        offset = self._read("<H", self._fields + entry)
        return self._at + offset if offset else 0

    def _read(self, layout: str, at: int) -> int:
        if at < 0:
            raise ValueError("a position before the file")
        return int(struct.unpack_from(layout, self._data, at)[0])


_Messages = Iterator[tuple[_Table, int]]
"""Messages, each with where its body begins."""


def _in_file(data: mmap.mmap) -> tuple[_Table, _Messages]:
    """The schema of a file, and the batches that its footer names."""
    end = len(data) - len(_MAGIC)
    if data[end:] != _MAGIC:
        raise ValueError("no ARROW1 at its end")
    (length,) = struct.unpack_from("<i", data, end - 4)
    if not 0 < length <= end - 4:
        raise ValueError(f"a footer of {length:,} bytes")
    footer = _Table.root(data, end - 4 - length)
    blocks = (block for field in (2, 3) for block in footer.structures(field, "<qi4xq"))
    return footer.table(1), (one for offset, _, _ in blocks for one in _message(data, offset))


def _in_stream(data: mmap.mmap) -> tuple[_Table, _Messages]:
    """The schema of a stream, and what follows it."""
    for message, body in _message(data, 0):
        if message.byte(_KIND) == _SCHEMA:
            return message.table(_CONTENT), _following(data, body + message.long(_BODY_BYTES))
    raise ValueError("no schema at its beginning")


def _following(data: mmap.mmap, at: int) -> _Messages:
    while at < len(data):
        found = list(_message(data, at))
        if not found:
            return
        yield from found
        (message, body) = found[0]
        at = body + message.long(_BODY_BYTES)


def _message(data: mmap.mmap, at: int) -> _Messages:
    """The message at a position, or none where a stream ends."""
    if at < 0:
        raise ValueError("a message before the file")
    start = at + 4 if data[at : at + 4] == _CONTINUED else at
    (length,) = struct.unpack_from("<i", data, start)
    if length:
        if not 0 < length <= len(data) - start:
            raise ValueError(f"a message of {length:,} bytes")
        yield _Table.root(data, start + 4), start + 4 + length


def _expanded(message: _Table, data: mmap.mmap, body: int) -> int:
    """The bytes that a batch unpacks to; its values have at least 8 each."""
    match message.byte(_KIND):
        case kind if kind == _BATCH:
            content = message.table(_CONTENT)
        case kind if kind == _DICTIONARY:
            content = message.table(_CONTENT).table(1)
        case _:
            return 0
    values = content.long(0) + sum(length for length, _ in content.structures(1, "<qq"))
    is_packed = content.has(3)
    buffers = 0
    for offset, length in content.structures(2, "<qq"):
        if min(offset, length) < 0:
            raise ValueError("a buffer of negative size")
        buffers += max(length, _prefix(data, body + offset)) if is_packed and length else length
    if values < 0:
        raise ValueError("a batch of negative size")
    return max(values * CELL_BYTES, buffers)


def _prefix(data: mmap.mmap, at: int) -> int:
    return int(struct.unpack_from("<q", data, at)[0])
