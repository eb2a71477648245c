"""One data file: which format it is, whether its content is that format, and its rows unparsed."""

from __future__ import annotations

import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, NotAvailable, Place, Problem
from trainwright.core.files import Json
from trainwright.core.hashing import hash_bytes
from trainwright.data.delimited import decode, read_delimited
from trainwright.data.jsonlines import read_json_lines
from trainwright.data.table import Integers
from trainwright.data.wording import nearest, some

Format = Literal["csv", "tsv", "jsonl", "parquet", "arrow"]
Compression = Literal["", ".gz", ".zst"]

FORMATS: MappingProxyType[str, Format] = MappingProxyType(
    {
        ".csv": "csv",
        ".tsv": "tsv",
        ".tab": "tsv",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
        ".parquet": "parquet",
        ".pq": "parquet",
        ".arrow": "arrow",
        ".feather": "arrow",
        ".ipc": "arrow",
    }
)
_EXPECTED = "CSV, TSV, JSON Lines (.jsonl), Parquet or Arrow, also .gz or .zst"

_MAGIC = (
    (b"PAR1", "Parquet"),
    (b"ARROW1", "Arrow"),
    (b"\xff\xff\xff\xff", "Arrow stream"),
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"PK\x03\x04", "ZIP (an Excel workbook or another archive)"),
    (b"\x89PNG", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF8", "GIF image"),
    (b"%PDF", "PDF"),
    (b"\x89HDF", "HDF5"),
    (b"\x93NUMPY", "NumPy"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"\x7fELF", "program"),
    (b"FEA1", "Feather version 1"),
    (b"\xd0\xcf\x11\xe0", "Excel 97 workbook"),
)
_PICKLE_PROTOCOLS = (2, 3, 4, 5)


@final
@dataclass(frozen=True, slots=True)
class FileVersion:
    """One input file as it was read. `path` is as written in the contract."""

    path: str
    sha256: str
    size_bytes: int
    rows: int

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "path": self.path,
            "sha256": self.sha256,
            "size_bytes": self.size_bytes,
            "rows": self.rows,
        }


@final
@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's rows before any cleaning: text files with every column as string, others typed.

    `lines` int64 [N] holds the line each row starts on; it is empty for files without lines.
    """

    frame: pl.DataFrame
    version: FileVersion
    lines: Integers

    def place(self, row: int = -1) -> Place:
        """Where a row (0-based) stands; without one, the file."""
        known = 0 <= row < len(self.lines)
        return Place(self.version.path, int(self.lines[row]) if known else 0)

    def rows_text(self, rows: Integers, most: int = 5) -> str:
        """`lines 4, 7 and 3 more`, or `rows` counted from 1 where a file has no lines."""
        if len(self.lines):
            word, numbers = "line", self.lines[rows[:most]]
        else:
            word, numbers = "row", rows[:most] + 1
        plural = "s" if len(rows) > 1 else ""
        return f"{word}{plural} {some([int(n) for n in numbers], most, len(rows))}"


def read_source(written: str, folder: Path, path: str = "data.path") -> SourceFile:
    """Read the file that a contract calls `written`, relative to `folder`.

    `path` is the contract path to blame. Nothing is unpickled, and no parser sees bytes that do
    not begin as the file's suffix says.

    Raises:
        DataMistake: the file is missing, empty or not what its name says; all problems of its
            structure at once. NotAvailable: a place or compression this version does not read.
    """
    if "://" in written:
        raise NotAvailable(
            Problem(
                "files outside this machine are not available in this version",
                path=path,
                found=written,
                fix="copy the file beside the contract and name it here",
            )
        )
    file = folder / written
    kind, compression = _format_of(written, path)
    packed = read_bytes(file, written, path)
    problem = _content_problem(packed, compression or kind, written)
    if problem:
        raise DataMistake(problem)
    data = _unpack(packed, compression, kind, written)
    if compression and (problem := _content_problem(data, kind, written)):
        raise DataMistake(problem)
    frame, lines = _parse(data, kind, written)
    return SourceFile(
        frame, FileVersion(written, hash_bytes(packed), len(packed), frame.height), lines
    )


def _format_of(written: str, path: str) -> tuple[Format, Compression]:
    suffixes = [suffix.lower() for suffix in Path(written).suffixes]
    compression: Compression = ""
    if suffixes and suffixes[-1] in (".gz", ".zst"):
        compression = ".gz" if suffixes.pop() == ".gz" else ".zst"
    if suffixes and suffixes[-1] in FORMATS:
        return FORMATS[suffixes[-1]], compression
    raise DataMistake(
        Problem(
            "the file's name does not say a format that can be read",
            path=path,
            found=written,
            expected=_EXPECTED,
            fix="rename the file to end in its format, for example .csv",
        )
    )


def read_bytes(file: Path, written: str, path: str) -> bytes:
    """The bytes of a file that a contract calls `written` at `path`.

    Raises:
        DataMistake: it is missing, a folder, empty or cannot be read.
    """
    place = Place(written)
    if file.is_dir():
        inside = sorted(child.name for child in file.iterdir() if child.is_file())
        fix = f"name a file inside it: {some(inside, 3)}" if inside else "name a file"
        raise DataMistake(Problem("this is a folder", path=path, fix=fix, place=place))
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise DataMistake(_missing_file(file, written, path)) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataMistake(
            Problem(
                f"the file cannot be read: {reason}",
                path=path,
                fix="check the file's rights and that its folder is reachable",
                place=place,
            )
        ) from error
    if not data.strip():
        raise DataMistake(
            Problem(
                "the file is empty",
                path=path,
                found=f"{len(data)} bytes",
                expected="a header line and rows",
                fix="export the data again, or name another file",
                place=place,
            )
        )
    return data


def _missing_file(file: Path, written: str, path: str) -> Problem:
    parent = file.parent
    if not parent.is_dir():
        fix = f"the folder {parent} does not exist; paths are relative to the contract's folder"
    else:
        near = nearest(file.name, [child.name for child in parent.iterdir()])
        fix = (
            f"did you mean {str(Path(written).with_name(near))!r}?"
            if near
            else f"put the file into {parent}, or correct the path"
        )
    return Problem(
        "there is no such file",
        path=path,
        found=written,
        expected=f"a file, named from {parent}",
        fix=fix,
    )


def _looks_like(data: bytes) -> str:
    for magic, name in _MAGIC:
        if data.startswith(magic):
            return name
    if len(data) > 1 and data[0] == 0x80 and data[1] in _PICKLE_PROTOCOLS:
        return "Python pickle"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16 text"
    return "binary data" if b"\x00" in data[:65536] else "text"


_WANTED: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        ".gz": ("gzip",),
        ".zst": ("zstd",),
        "parquet": ("Parquet",),
        "arrow": ("Arrow", "Arrow stream"),
        "csv": ("text",),
        "tsv": ("text",),
        "jsonl": ("text",),
    }
)


def _content_problem(data: bytes, kind: str, written: str) -> Problem | None:
    found = _looks_like(data)
    if found in _WANTED[kind]:
        return None
    fix = {
        "Python pickle": "export the table as Parquet or CSV; a pickle can run code and is "
        "never opened here",
        "UTF-16 text": f"iconv -f UTF-16 -t UTF-8 '{written}' > utf8.csv",
        "gzip": "add .gz to the file's name",
        "zstd": "add .zst to the file's name",
    }.get(found, "name the file after its format, or export the data again")
    return Problem(
        "the file's content is not what its name says",
        found=found,
        expected=_WANTED[kind][0],
        fix=fix,
        place=Place(written),
    )


def _unpack(data: bytes, compression: Compression, kind: Format, written: str) -> bytes:
    match compression:
        case "":
            return data
        case ".gz":
            try:
                return gzip.decompress(data)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataMistake(_broken(written, "gzip", str(error))) from error
        case ".zst":
            if kind in ("parquet", "arrow"):
                raise NotAvailable(
                    Problem(
                        f"zstd around a whole {kind} file is not available in this version",
                        found=written,
                        fix=f"zstd -d '{written}' ({kind} files compress their own columns)",
                        place=Place(written),
                    )
                )
            return _unpack_zstd(data, written)
        case _:
            assert_never(compression)


def _unpack_zstd(data: bytes, written: str) -> bytes:
    # Python has no zstd before 3.14; polars has, but only in its CSV reader: each line is read
    # as one field, with a separator that text does not hold.
    try:
        lines = pl.read_csv(
            data, separator="\x01", has_header=False, quote_char=None, infer_schema=False
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataMistake(_broken(written, "zstd text", str(error))) from error
    return "\n".join(line or "" for line in lines.to_series(0)).encode()


def _broken(written: str, kind: str, detail: str) -> Problem:
    return Problem(
        f"the {kind} file is damaged or cut short",
        found=detail.splitlines()[0][:200] if detail else "",
        expected=f"a whole {kind} file",
        fix="copy or export the file again and compare its size with the original",
        place=Place(written),
    )


def _parse(data: bytes, kind: Format, written: str) -> tuple[pl.DataFrame, Integers]:
    match kind:
        case "csv" | "tsv":
            return read_delimited(decode(data, written), kind, written)
        case "jsonl":
            return read_json_lines(decode(data, written), written)
        case "parquet":
            if not data.endswith(b"PAR1"):
                raise DataMistake(_broken(written, "Parquet", "no PAR1 at its end"))
            return _parse_binary(data, kind, written), np.empty(0, dtype=np.int64)
        case "arrow":
            return _parse_binary(data, kind, written), np.empty(0, dtype=np.int64)
        case _:
            assert_never(kind)


def _parse_binary(data: bytes, kind: Literal["parquet", "arrow"], written: str) -> pl.DataFrame:
    name = "Parquet" if kind == "parquet" else "Arrow"
    try:
        if kind == "parquet":
            return pl.read_parquet(io.BytesIO(data))
        if data.startswith(b"ARROW1"):
            return pl.read_ipc(io.BytesIO(data))
        return pl.read_ipc_stream(io.BytesIO(data))
    except (pl.exceptions.DuplicateError, pl.exceptions.SchemaError) as error:
        raise DataMistake(
            Problem(
                "the file's columns cannot be told apart",
                found=str(error).splitlines()[0],
                expected="column names that occur once",
                fix="rename the columns and export the file again",
                place=Place(written),
            )
        ) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise DataMistake(_broken(written, name, str(error))) from error
