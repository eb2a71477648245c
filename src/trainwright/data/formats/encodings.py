"""Text files as UTF-8: streaming decompression, transcoding in blocks."""

from __future__ import annotations

import codecs
import gzip
import unicodedata
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
from trainwright.core.limits import MOST_LINE_LETTERS
from trainwright.core.process import memory_bytes
from trainwright.data.formats.file_format import Compression, damaged_file

_BLOCK = 2**20
_GIGABYTE = 10**9
_MOST_WINDOW = 2**27
_ZSTD_BLOCK = 2**11
"""A block of zstd makes at most 128 KiB of 4 bytes, so these make 64 MiB."""

_MARK = "\ufeff"
_NEAR = 400
_MANY_HIGH_BYTES = 3
_LOWER_CYRILLIC = 0xE0
_CONTROL = dict.fromkeys([*(set(range(32)) - set(b"\t\n\r")), 127])


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


def plain_text(file: Path, written: str, reading: Reading, target: Path) -> Path:
    """A text file of records in UTF-8: the file itself, or its transcription in `target`. Every
    byte is checked, none is NUL in it, and every line ends.

    Raises:
        DataMistake: naming the first byte that is not of the encoding, the first NUL, or a line
            that is too long.
    """
    blocks = _with_line_ends(text_blocks(file, written, reading), written)
    is_clean = reading.control_characters == "refuse"
    if codecs.lookup(reading.encoding).name == "utf-8" and is_clean:
        for _ in blocks:
            pass
        return file
    with storage_errors(f"transcribing {written}"), target.open("wb") as out:
        for text in blocks:
            out.write(text.encode())
    return target


def _with_line_ends(blocks: Iterator[str], written: str) -> Iterator[str]:
    lines = letters = 0
    for text in blocks:
        last = text.rfind("\n")
        if (last := last if last >= 0 else text.rfind("\r")) < 0:
            letters += len(text)
        else:
            lines += text.count("\n")
            letters = len(text) - last - 1
        if letters > MOST_LINE_LETTERS:
            raise DataMistake(_endless(written, lines + 1))
        yield text


def text_blocks(file: Path, written: str, reading: Reading) -> Iterator[str]:
    """The text of a file, about a million letters at a time, without a byte order mark.

    Raises:
        DataMistake: as `plain_text`.
    """
    name = codecs.lookup(reading.encoding).name
    removes = reading.control_characters == "remove"
    decoder = codecs.getincrementaldecoder(name)()
    offset = lines = 0
    with file.open("rb") as stream:
        while True:
            block = stream.read(_BLOCK)
            held = len(decoder.getstate()[0])
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = offset - held + error.start
                raise DataMistake(_foreign(file, written, name, at, error.reason)) from error
            except UnicodeError as error:
                # UTF-16 and UTF-32 whose mark of the byte order is absent name no place.
                raise DataMistake(_foreign(file, written, name, offset, str(error))) from error
            count = text.count("\n")
            if removes:
                text = text.translate(_CONTROL)
            elif "\0" in text:
                line = lines + text.count("\n", 0, text.index("\0")) + 1
                raise DataMistake(_nul(written, line))
            # Only some decoders take the mark off themselves.
            yield text if offset else text.removeprefix(_MARK)
            if not block:
                return
            offset += len(block)
            lines += count


def encoding_of(sample: bytes) -> str:
    """The encoding that bytes look like which are not UTF-8: a guess, for a message only."""
    for mark, name in ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if sample.startswith(mark):
            return name
    if sample.count(0) > len(sample) // 4:
        return "utf-16-le" if sample[1::2].count(0) > sample[::2].count(0) else "utf-16-be"
    if _longest_run(sample) >= _MANY_HIGH_BYTES:
        high = [byte for byte in sample if byte > 127]
        if sum(byte >= _LOWER_CYRILLIC for byte in high) > 0.6 * len(high):
            return "cp1251"
        kana = _share(sample, "shift_jis", "HIRAGANA") + _share(sample, "shift_jis", "KATAKANA")
        return "shift_jis" if kana > 0.3 else "gb18030"
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _longest_run(sample: bytes) -> int:
    """Bytes above ASCII one after the other."""
    runs = bytes(1 if byte > 127 else 32 for byte in sample).split()
    return max((len(run) for run in runs), default=0)


def _share(sample: bytes, encoding: str, script: str) -> float:
    """How much of the text beyond ASCII is of a script, if the bytes are read so."""
    text = sample.decode(encoding, errors="ignore")
    beyond = [mark for mark in text if ord(mark) > 127]
    found = [mark for mark in beyond if unicodedata.name(mark, "").startswith(script)]
    return len(found) / len(beyond) if beyond else 0.0


def _foreign(file: Path, written: str, encoding: str, at: int, reason: str) -> Problem:
    near = max(0, at - _NEAR)
    line = 1
    with file.open("rb") as stream:
        while stream.tell() < at:
            line += stream.read(min(_BLOCK, at - stream.tell())).count(b"\n")
        stream.seek(near)
        sample = stream.read(2 * _NEAR)
    guess = encoding_of(sample)
    reads = sample[max(0, at - near - 12) : at - near + 12].decode(guess, errors="replace")
    return Problem(
        f"the text is not {encoding.upper()}",
        found=f"byte 0x{sample[at - near]:02x} at offset {at} ({reason})",
        expected=f"{encoding.upper()}; it looks like {guess}, where it reads {reads!r}",
        fix=f"set data.reading.encoding to {guess} or to the encoding it was written in, or: "
        f"iconv -f {guess.upper()} -t UTF-8 '{written}' > utf8.csv",
        place=Place(written, line),
        kind="encoding",
    )


def _endless(written: str, number: int) -> Problem:
    return Problem(
        "the line does not end",
        found=f"more than {MOST_LINE_LETTERS:,} letters",
        expected="one record on each line",
        fix="write each record on a line of its own",
        place=Place(written, number),
    )


def _nul(written: str, line: int) -> Problem:
    return Problem(
        "the text holds a NUL byte",
        found=f"a byte of value 0 in line {line:,}",
        expected="text; a file that was cut short by a crash ends in such bytes",
        fix="export the file again, or set data.reading.control_characters to remove",
        place=Place(written, line),
        kind="control_characters",
    )
