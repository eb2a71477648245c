"""Uncompressed size of a Parquet file from its footer and page headers, without decompression.

A footer is written in the compact protocol of Thrift (github.com/apache/thrift,
`doc/specs/thrift-compact-protocol.md`) by the structures of github.com/apache/parquet-format,
`src/main/thrift/parquet.thrift`. It may lie: what a reader allocates stands in the page headers.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, final

import polars as pl

from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.limits import CELL_BYTES
from trainwright.data.formats.encodings import check_columns, check_expansion
from trainwright.data.formats.file_format import damaged_file

_MAGIC = b"PAR1"
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, struct.error, RecursionError)
_TAIL_BYTES = 8
_MOST_DEPTH = 32
_VERSION_1, _DICTIONARY, _VERSION_2 = 5, 7, 8
"""The fields of a page header that hold that of its kind, each with the number of values first."""

_SCHEMA, _ROWS, _ROW_GROUPS = 2, 3, 4
_CHILDREN = 5
_COLUMNS = 1
_ABOUT = 3
_VALUES, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PREFIXES = 7
_ENCODINGS = 2
Fields = dict[int, Any]
"""A Thrift structure: values by the numbers of their fields."""


def check_parquet(file: Path, written: str, reading: Reading) -> bool:
    """Hold what a Parquet file says of its pages against its size. Whether it has texts that share
    prefixes (DELTA_BYTE_ARRAY): how long those are stands nowhere but in the packed pages.

    Raises:
        DataMistake: it has too many columns, unpacks to too much, or is damaged.
    """
    try:
        with file.open("rb") as stream:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        with data:
            footer = _footer(data)
            check_columns(_leaves(footer), written, reading)
            check_expansion(_expanded(data, footer), len(data), written, reading)
            return any(_PREFIXES in chunk[_ABOUT][_ENCODINGS] for chunk in _chunks(footer))
    except _DAMAGE as error:
        raise damaged_file(written, "Parquet", f"its footer cannot be read ({error})") from error


def read_parquet(file: Path) -> pl.DataFrame:
    """The rows of a Parquet file of a run, which may have been replaced by another one.

    Raises:
        DataMistake: as `check_parquet`. OSError, PolarsError: it cannot be read.
    """
    check_parquet(file, file.name, USUAL)
    return pl.read_parquet(file)


def _footer(data: mmap.mmap) -> Fields:
    if len(data) < _TAIL_BYTES + len(_MAGIC) or data[-4:] != _MAGIC:
        raise ValueError("no PAR1 at its end")
    (length,) = struct.unpack("<I", data[-_TAIL_BYTES:-4])
    if length > len(data) - _TAIL_BYTES:
        raise ValueError(f"it claims {length:,} bytes")
    return _Thrift(data[-_TAIL_BYTES - length : -_TAIL_BYTES], 0).structure()


def _leaves(footer: Fields) -> int:
    """The columns of values: what of the schema has no parts."""
    return sum(1 for element in footer[_SCHEMA] if not element.get(_CHILDREN))


def _expanded(data: mmap.mmap, footer: Fields) -> int:
    """The bytes that all pages unpack to, their values at 8 bytes each."""
    rows = int(footer[_ROWS]) * CELL_BYTES
    return rows + sum(_of_chunk(data, chunk[_ABOUT]) for chunk in _chunks(footer))


def _chunks(footer: Fields) -> Iterator[Fields]:
    """Each column of each row group."""
    for group in footer.get(_ROW_GROUPS) or ():
        yield from group.get(_COLUMNS) or ()


def _of_chunk(data: mmap.mmap, about: Fields) -> int:
    start = min(at for at in (about[_DATA_PAGE], about.get(_DICTIONARY_PAGE)) if at)
    stop = start + about[_PACKED]
    if not 0 < start <= stop <= len(data):
        raise ValueError("pages outside of the file")
    unpacked = values = 0
    for of_page, values_of_page in _pages(data, start, stop):
        unpacked += of_page
        values += values_of_page
    return max(unpacked, max(values, int(about[_VALUES])) * CELL_BYTES)


def _pages(data: mmap.mmap, at: int, stop: int) -> Iterator[tuple[int, int]]:
    """The unpacked bytes and the values of each page of a column between two positions."""
    while at < stop:
        reader = _Thrift(data, at)
        header = reader.structure()
        kind = next((k for k in (_VERSION_1, _VERSION_2, _DICTIONARY) if k in header), 0)
        unpacked, packed = int(header[2]), int(header[3])
        values = int(header[kind][1]) if kind else 0
        if min(unpacked, packed, values) < 0:
            raise ValueError("a page of negative size")
        yield unpacked, 0 if kind == _DICTIONARY else values
        at = reader.at + packed


@final
class _Thrift:
    """The compact protocol, as far as a footer needs it."""

    def __init__(self, data: bytes | mmap.mmap, at: int) -> None:
        self._data = data
        self._depth = 0
        self.at = at

    def structure(self) -> Fields:
        """The fields of the structure that begins here."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise ValueError("it is nested too deeply")
        fields: Fields = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15)
        self._depth -= 1
        return fields

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._signed()
            case 7:
                return self._take(8)
            case 8:
                return self._take(self._unsigned())
            case 9 | 10:
                return self._list()
            case 12:
                return self.structure()
            case _:
                raise ValueError(f"a value of type {kind}")

    def _list(self) -> list[Any]:
        head = self._byte()
        count, kind = head >> 4, head & 15
        if count == 15:
            count = self._unsigned()
        if count > len(self._data) - self.at:
            raise ValueError(f"a list of {count:,}")
        if kind in (1, 2):
            return [self._byte() == 1 for _ in range(count)]
        return [self._value(kind) for _ in range(count)]

    def _take(self, count: int) -> bytes:
        found = self._data[self.at : self.at + count]
        if len(found) < count:
            raise ValueError("it is cut off")
        self.at += count
        return found

    def _byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number has no end")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
