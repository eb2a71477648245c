"""Local files: checked, hashed and parsed once, and watched for changes."""

from __future__ import annotations

import math
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, assert_never, final

import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import hash_file, hash_value, is_unchanged
from trainwright.core.process import resident_bytes
from trainwright.data.base.messages import nearest_option, some
from trainwright.data.formats.encodings import (
    check_expansion,
    check_size,
    decompress_file,
    expansion_problem,
    most_expanded,
    plain_text,
)
from trainwright.data.formats.file_format import (
    NO_LINES,
    Compression,
    Format,
    ParseResult,
    check_content,
    damaged_file,
    format_of,
)
from trainwright.data.formats.number_formats import rewrite_commas
from trainwright.data.formats.parquet_sizes import check_parquet
from trainwright.data.sources.cache import Tables
from trainwright.data.sources.source_file import FileVersion, SourcePart

_SCHEME = 2
_FEWEST_BYTES = 4096


class _Stamp(NamedTuple):
    size_bytes: int
    written: int
    number: int


_GONE = _Stamp(0, 0, 0)


@final
class FilesRead:
    """The local files that a run has read, as they lie on the disk. A file is only read again where
    its size, its time or its place on the disk has changed, or it was written after `since` (in
    nanoseconds since 1970), when the reading began: else looking costs nothing.

    Only inputs that are single files are looked at. Images are used as they were kept when the run
    began, whatever becomes of their files."""

    def __init__(self, files: Sequence[FileVersion], folder: Path, since: int) -> None:
        self._since = since
        self._files: Mapping[Path, FileVersion] = {
            folder / file.path: file
            for file in files
            if file.file_sha256 and "://" not in file.path
        }
        self._stamps = {path: _stamp(path) for path in self._files}

    def changed(self) -> tuple[str, ...]:
        """The files, as the contract calls them, whose content is not what was read."""
        return tuple(
            file.path
            for path, file in self._files.items()
            if not path.is_file()
            or (
                self._may_differ(path) and not is_unchanged(path, file.size_bytes, file.file_sha256)
            )
        )

    def _may_differ(self, path: Path) -> bool:
        stamp = self._stamps[path]
        return stamp.written >= self._since or _stamp(path) != stamp


def _stamp(path: Path) -> _Stamp:
    if not path.is_file():
        return _GONE
    found = path.stat()
    return _Stamp(found.st_size, found.st_mtime_ns, found.st_ino)


@final
@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file; `written` is what the contract calls it, at `path`. `told_by` is the name that
    determines its format, if `written` is redacted; empty: `written`."""

    file: Path
    written: str
    path: str
    reading: Reading
    tables: Tables
    told_by: str = ""

    def parts(self) -> tuple[SourcePart, ...]:
        """The file's rows.

        Raises:
            DataMistake: it is missing, empty, not what its name says, or not whole.
        """
        kind, compression = format_of(self.told_by or self.written, self.path)
        check_file(self.file, self.written, self.path)
        check_content(self.file, compression or kind, self.written, self.reading)
        sha256, size_bytes = hash_file(self.file), self.file.stat().st_size
        how = _how(kind, compression, self.reading)
        key = hash_value({"scheme": _SCHEME, "sha256": sha256, "how": how})

        def build(target: Path) -> ParseResult:
            parsed = _parse(self, kind, compression, target)
            check_unchanged(self.file, self.written, sha256)
            return parsed

        rows = self.tables.table(key, self.written, build)
        return (
            SourcePart(
                self.written,
                sha256,
                size_bytes,
                rows.frame,
                rows.lines,
                rows.skipped,
                file_sha256=sha256,
            ),
        )


def check_unchanged(file: Path, written: str, sha256: str) -> None:
    """Raise `DataMistake` if a file is no longer the one that was hashed before it was read."""
    if hash_file(file) != sha256:
        raise DataMistake(
            Problem(
                "the file changed while it was read",
                fix="wait until the writer is done, and start again",
                place=Place(written),
            )
        )


def check_file(file: Path, written: str, path: str) -> None:
    """Raise `DataMistake` for what is missing, a folder, no file, empty or not readable."""
    place = Place(written)
    try:
        found = file.stat()
        if stat.S_ISREG(found.st_mode):
            with file.open("rb") as stream:
                blank = found.st_size <= _FEWEST_BYTES and not stream.read().strip()
        else:
            raise DataMistake(_no_file(file, path, place))
    except (FileNotFoundError, NotADirectoryError):
        raise DataMistake(_missing_file(file, written, path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error)
        raise DataMistake(
            Problem(
                f"the file cannot be read: {reason}",
                path=path,
                fix="check the file's rights and that its folder is reachable",
                place=place,
            )
        ) from error
    if blank:
        raise DataMistake(
            Problem(
                "the file is empty",
                path=path,
                found=f"{found.st_size} bytes",
                expected="a file that holds something",
                fix="export the data again, or name another file",
                place=place,
            )
        )


def _no_file(file: Path, path: str, place: Place) -> Problem:
    if not file.is_dir():
        return Problem(
            "this is a device or a pipe",
            path=path,
            expected="a file",
            fix="write the data into a file first",
            place=place,
        )
    inside = sorted(child.name for child in file.iterdir() if child.is_file())
    fix = f"name a file inside it: {some(inside, 3)}" if inside else "name a file"
    return Problem("this is a folder", path=path, fix=fix, place=place)


def _missing_file(file: Path, written: str, path: str) -> Problem:
    parent = file.parent
    if not parent.is_dir():
        fix = f"the folder {parent} does not exist; paths are relative to the contract's folder"
    else:
        near = nearest_option(file.name, [child.name for child in parent.iterdir()])
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


def _how(kind: Format, compression: Compression, reading: Reading) -> list[str]:
    """Everything beside the content that decides what rows a file gives."""
    how = [kind, compression, pl.__version__]
    if kind not in ("csv", "tsv"):
        how.append(reading.nested)
    if kind not in ("parquet", "arrow"):
        how += [reading.encoding, str(reading.bad_records)]
        how += ["no control"] if reading.control_characters == "remove" else []
    if kind in ("csv", "tsv"):
        how += [str(reading.header), reading.separator, reading.quotes]
        how += [f"skip {reading.skip_lines}"] if reading.skip_lines else []
        how += [reading.repeated_names] if reading.repeated_names != "refuse" else []
    return [*how, *(part for pair in sorted(reading.numbers.items()) for part in pair)]


def _parse(source: LocalFile, kind: Format, compression: Compression, target: Path) -> ParseResult:
    written, reading = source.written, source.reading
    check_size(source.file.stat().st_size, written, reading)
    file = decompress_file(source.file, compression, written, reading, target.with_name("unpacked"))
    if compression:
        check_content(file, kind, written, reading)
    parsed = _rows(file, kind, source, target)
    if reading.numbers:
        rewrite_commas(target, reading.numbers, parsed, written)
    return parsed


def _rows(file: Path, kind: Format, source: LocalFile, target: Path) -> ParseResult:
    written, reading = source.written, source.reading
    match kind:
        case "csv" | "tsv":
            # Each format is imported where it is read; of rows in the cache, none.
            from trainwright.data.formats.delimited import read_delimited

            text = plain_text(file, written, reading, target.with_name("text"))
            return read_delimited(text, kind, written, reading, target)
        case "jsonl":
            from trainwright.data.formats.json_lines import read_json_lines

            text = plain_text(file, written, reading, target.with_name("text"))
            return read_json_lines(text, written, reading, target)
        case "parquet" | "arrow":
            _write_binary(file, kind, written, reading, target)
            return ParseResult(NO_LINES)
        case _:
            assert_never(kind)


def _write_binary(
    file: Path, kind: Literal["parquet", "arrow"], written: str, reading: Reading, target: Path
) -> None:
    name = "Parquet" if kind == "parquet" else "Arrow"
    with file.open("rb") as stream:
        head = stream.read(6)
        stream.seek(-4, 2)
        tail = stream.read()
    if kind == "parquet" and tail != b"PAR1":
        raise damaged_file(written, name, "no PAR1 at its end")
    in_prefixes = kind == "parquet" and check_parquet(file, written, reading)
    if kind == "arrow":
        from trainwright.data.formats.arrow_files import check_arrow

        check_arrow(file, written, reading)
    try:
        if kind == "parquet":
            rows = pl.scan_parquet(file, glob=False)
        elif head == b"ARROW1":
            rows = pl.scan_ipc(file, glob=False)
        else:
            rows = pl.read_ipc_stream(file).lazy()
        rows.collect_schema()
        if in_prefixes:
            _write_watched(rows, file, written, reading, target)
        else:
            _write_rows(rows, written, reading, target)
        check_expansion(_text_bytes(target), file.stat().st_size, written, reading)
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
        raise damaged_file(written, name, str(error)) from error


def _write_watched(
    rows: pl.LazyFrame, file: Path, written: str, reading: Reading, target: Path
) -> None:
    """`_write_rows` for a file that does not say what it unpacks to: memory is watched."""
    # Imported here: few files are such.
    from trainwright.core.deadline import Overrun, call_within

    size = file.stat().st_size
    before = resident_bytes()
    most = most_expanded(size, reading.most_unpacked_ratio)
    try:
        call_within(
            math.inf,
            lambda: _write_rows(rows, written, reading, target),
            lambda: resident_bytes() - before > most,
        )
    except Overrun:
        raise DataMistake(expansion_problem(most, size, written, reading)) from None


def _text_bytes(target: Path) -> int:
    """The bytes of all texts of an Arrow file, in which equal ones may be kept once."""
    rows = pl.scan_ipc(target)
    return sum(_bytes_of(rows, name, kind) for name, kind in rows.collect_schema().items())


def _bytes_of(rows: pl.LazyFrame, name: str, kind: pl.DataType) -> int:
    column = pl.col(name)
    match kind:
        case pl.String():
            lengths = column.str.len_bytes()
        case pl.Binary():
            lengths = column.bin.size()
        case pl.Categorical() | pl.Enum():
            # Each text stands once beside the numbers of the rows.
            rows = rows.group_by(column).len("rows")
            lengths = column.cast(pl.String).str.len_bytes() * pl.col("rows")
        case _:
            return 0
    total = rows.select(lengths.cast(pl.Int64).sum()).collect(engine="streaming").item()
    return int(total or 0)


def _write_rows(rows: pl.LazyFrame, written: str, reading: Reading, target: Path) -> None:
    if reading.nested == "refuse":
        rows.sink_ipc(target)
        return
    from trainwright.data.formats.json_lines import with_text

    try:
        with_text(rows, reading.nested).sink_ipc(target)
    except ValueError as error:
        raise DataMistake(
            Problem(
                "a list of turns holds something else",
                found=str(error).splitlines()[0],
                expected="a role and a content in each turn",
                fix="repair the turns, or set data.reading.nested to text",
                place=Place(written),
            )
        ) from error
