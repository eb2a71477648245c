"""Streaming decompression, and limits of the expansion."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from trainwright.contract.sections.data.sources import Reading
from trainwright.core import limits
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import storage_errors
from trainwright.core.formatting import show_bytes
from trainwright.core.machine import memory_bytes
from trainwright.data.formats.file_format import Compression, damaged_file

_BLOCK = 2**20
_GIGABYTE = 10**9
_MOST_WINDOW = 2**27
_ZSTD_BLOCK = 2**11
"""A block of zstd makes at most 128 KiB of 4 bytes, so these make 64 MiB."""


def decompress_file(
    file: Path, compression: Compression, written: str, reading: Reading, target: Path
) -> Path:
    """Decompress a file into `target`; an uncompressed file is returned unchanged.

    Raises:
        DataMistake: it is damaged, or unpacks to more than the limits of `reading`.
    """
    if not compression:
        return file
    size = file.stat().st_size
    most = most_expanded(size, reading.most_unpacked_ratio)
    done = 0
    with (
        file.open("rb") as stream,
        storage_errors(f"unpacking {written}"),
        target.open("wb") as out,
    ):
        blocks = _gzip_blocks(stream) if compression == ".gz" else _zstd_blocks(stream)
        try:
            for block in blocks:
                done += len(block)
                check_size(done, written, reading)
                if done > most:
                    raise DataMistake(expansion_problem(done, size, written, reading))
                out.write(block)
        except (zlib.error, gzip.BadGzipFile, EOFError, zstandard.ZstdError) as error:
            name = "gzip" if compression == ".gz" else "zstd"
            raise damaged_file(written, name, str(error)) from error
    return target


def check_size(size_bytes: int, written: str, reading: Reading) -> None:
    """Raise `DataMistake` for what is larger than `reading` allows."""
    if size_bytes <= reading.most_gigabytes * _GIGABYTE:
        return
    raise DataMistake(
        Problem(
            "the file has more data than is allowed",
            found=f"{show_bytes(size_bytes)} and more",
            expected=f"at most {reading.most_gigabytes:g} GB",
            fix="raise data.reading.most_gigabytes if the file is trusted",
            place=Place(written),
        )
    )


def check_expansion(expanded_bytes: int, size_bytes: int, written: str, reading: Reading) -> None:
    """Check the declared uncompressed size of a file against its size, before decompression.

    Raises:
        DataMistake: it is more than the limits of `reading`.
    """
    check_size(expanded_bytes, written, reading)
    if expanded_bytes > most_expanded(size_bytes, reading.most_unpacked_ratio):
        raise DataMistake(expansion_problem(expanded_bytes, size_bytes, written, reading))


def check_columns(count: int, written: str, reading: Reading, line: int = 0) -> None:
    """Raise `DataMistake` for a table of more columns than `reading` allows."""
    if count <= reading.most_columns:
        return
    raise DataMistake(
        Problem(
            "the table has more columns than is allowed",
            found=f"{count:,} columns",
            expected=f"at most {reading.most_columns:,}",
            fix=f"drop the columns that are not needed, or set data.reading.most_columns to "
            f"{count} if the file is trusted: every column takes time in each check",
            place=Place(written, line),
        )
    )


def most_expanded(size_bytes: int, ratio: float = limits.MOST_EXPANSION) -> int:
    """Maximum uncompressed bytes of a file of this size."""
    return max(free_expansion(), int(ratio * size_bytes))


def free_expansion() -> int:
    """Uncompressed bytes allowed for any file, however small."""
    return max(limits.EXPANSION_BYTES, memory_bytes() // limits.EXPANSION_SHARE)


def expansion_problem(done: int, size: int, written: str, reading: Reading) -> Problem:
    """Problem of a file that expands too much."""
    return Problem(
        "the file unpacks to far more than its size",
        found=f"{show_bytes(done)} and more from {show_bytes(size)}",
        expected=f"at most {reading.most_unpacked_ratio:g} times its size, "
        f"or {show_bytes(free_expansion())}",
        fix="raise data.reading.most_unpacked_ratio if the file is trusted",
        place=Place(written),
    )


def _gzip_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The content of a gzip file, which may be several, one after the other."""
    with gzip.GzipFile(fileobj=stream) as unpacked:
        while block := unpacked.read(_BLOCK):
            yield block


def _zstd_blocks(stream: BinaryIO) -> Iterator[bytes]:
    """The content of a zstd file, which may be several frames, one after the other."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW)
    frame = unpacker.decompressobj()
    packed = stream.read(_ZSTD_BLOCK)
    while packed:
        yield frame.decompress(packed)
        packed = frame.unused_data or stream.read(_ZSTD_BLOCK)
        if frame.eof and packed:
            frame = unpacker.decompressobj()
    if not frame.eof:
        raise EOFError("the file ends before its last block")
