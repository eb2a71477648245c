"""Delimited text (CSV, TSV), with all fields as strings and each record's line."""

from __future__ import annotations

import contextlib
import csv
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, TextIO, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.limits import MOST_FIELD_LETTERS, MOST_LINE_LETTERS
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import quoted, some
from trainwright.data.formats.encodings import check_columns
from trainwright.data.formats.file_format import BadRecords, ParseResult

_BLOCK_BYTES = 8 * 2**20
_LINE_FEED = 10
_SPECIAL = (b'"', b"\r", b"\0")
_OTHER_SEPARATORS = (";", "\t", "|")
_SHOWN = 5
_BLOCK_RECORDS = 50_000


def count_plain_lines(file: Path, separator: str, width: int) -> int:
    """How many lines a text has, each of `width` fields; 0 where a reader of records may see it in
    another way: it has quotes, other line ends, letters beyond ASCII, a line of other width or of
    more than 8 MiB, or one field a line, where a blank one is hard to tell."""
    if width < 2 or not separator.isascii():
        return 0
    lines, rest = 0, b""
    with file.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            text = rest + block
            end = text.rfind(b"\n") + 1
            found = _lines_of(text[:end], separator, width) if end else 0
            lines, rest = lines + found, text[end:]
            if (end and not found) or len(rest) > _BLOCK_BYTES:
                return 0
    if not rest:
        return lines
    last = _lines_of(rest + b"\n", separator, width)
    return lines + last if last else 0


def _lines_of(text: bytes, separator: str, width: int) -> int:
    """The lines of a text that ends with one, or 0 where one is not plain."""
    if not text.isascii() or any(mark in text for mark in _SPECIAL):
        return 0
    letters = np.frombuffer(text, dtype=np.uint8)
    marks = letters[(letters == _LINE_FEED) | (letters == ord(separator))] == _LINE_FEED
    # Every `width`-th mark ends a line, and no other one does.
    lines = len(marks) // width
    plain = len(marks) == lines * width and marks.reshape(lines, width)[:, -1].all()
    return lines if plain and int(marks.sum()) == lines else 0


class Records(Protocol):
    """Python's reader of such text, which tells in which line it is."""

    @property
    def line_num(self) -> int:
        """Lines read so far."""
        ...

    def __iter__(self) -> Iterator[list[str]]: ...

    def __next__(self) -> list[str]: ...


@final
@dataclass(frozen=True, slots=True)
class _Dialect:
    """How the text is divided."""

    separator: str
    quoted: bool
    header: bool
    skipped_lines: int
    renames: bool

    @contextlib.contextmanager
    def text(self, file: Path) -> Iterator[TextIO]:
        """The text of a file behind the lines that are no part of the table."""
        with _text(file) as stream:
            for _ in range(self.skipped_lines):
                stream.readline(MOST_LINE_LETTERS)
            yield stream

    def records(self, text: TextIO) -> Records:
        """The records of a text, the header first if there is one."""
        if self.quoted:
            return csv.reader(text, delimiter=self.separator, strict=True)
        return csv.reader(text, delimiter=self.separator, quoting=csv.QUOTE_NONE, strict=True)


@final
@dataclass(frozen=True, slots=True)
class _Scan:
    """The shape of a delimited text. `starts` holds the line of each row, `left_out` the record
    numbers (0 is the first after the header) of lines that hold nothing or could not be read."""

    names: tuple[str, ...]
    starts: Integers
    left_out: Integers
    skipped: tuple[int, ...]


def read_delimited(
    file: Path, kind: Literal["csv", "tsv"], written: str, reading: Reading, target: Path
) -> ParseResult:
    """Write the rows of CSV or TSV text in UTF-8, all strings, into the Arrow file `target`.

    In a `.csv` whose header holds no comma, `;`, tab or `|` separates if the header holds one.
    Quotes are `"`, doubled inside a quoted field. Empty lines are skipped.

    Raises:
        DataMistake: duplicate column names, broken quotes, rows with a wrong number of fields.
    """
    separator = _separator_of(file, kind, reading)
    dialect = _Dialect(
        separator,
        reading.quotes == "double",
        reading.header,
        reading.skip_lines,
        reading.repeated_names == "rename",
    )
    with dialect.text(file) as text, contextlib.suppress(csv.Error):
        first = next(dialect.records(text), [])
        check_columns(len(first), written, reading, 1 + reading.skip_lines)
    scan = _plain(file, dialect, written)
    scan = scan or _scan(file, dialect, written, BadRecords(reading.bad_records))
    # The fast reader takes the width of text without a header from its first line.
    by_hand = bool(scan.skipped) or (not dialect.header and 0 in scan.left_out)
    if by_hand or not _wrote_fast(file, dialect, scan, target):
        _write_exactly(file, dialect, scan, target)
    return ParseResult(scan.starts, scan.skipped)


def _separator_of(file: Path, kind: Literal["csv", "tsv"], reading: Reading) -> str:
    if kind == "tsv":
        return "\t"
    if reading.separator:
        return reading.separator
    with _text(file) as text:
        for _ in range(reading.skip_lines):
            text.readline(MOST_LINE_LETTERS)
        header = text.readline(MOST_LINE_LETTERS)
        while header and not header.strip(" \r\n"):
            header = text.readline(MOST_LINE_LETTERS)
    if "," in header:
        return ","
    return next((mark for mark in _OTHER_SEPARATORS if mark in header), ",")


@contextlib.contextmanager
def _text(file: Path) -> Iterator[TextIO]:
    """The text of a file, with fields as long as they may be."""
    before = csv.field_size_limit(MOST_FIELD_LETTERS)
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            yield stream
    finally:
        csv.field_size_limit(before)


def _plain(file: Path, dialect: _Dialect, written: str) -> _Scan | None:
    """The shape of text of one record a line, which most files are; else none."""
    if dialect.skipped_lines:
        return None
    try:
        names = _names(file, dialect, written)
    except csv.Error:
        return None
    first = 2 if dialect.header else 1
    last = count_plain_lines(file, dialect.separator, len(names))
    if last < first:
        return None
    nothing = np.empty(0, dtype=np.int64)
    return _Scan(names, np.arange(first, last + 1, dtype=np.int64), nothing, ())


def _scan(file: Path, dialect: _Dialect, written: str, bad: BadRecords) -> _Scan:
    starts, left_out = array("q"), array("q")
    ragged: list[tuple[int, int]] = []
    start = 1 + dialect.skipped_lines
    names: tuple[str, ...] = ()
    with dialect.text(file) as text:
        reader = dialect.records(text)
        try:
            names = _names(file, dialect, written)
            if dialect.header:
                next(reader)
                start = dialect.skipped_lines + reader.line_num + 1
            for number, record in enumerate(reader):
                if len(record) == len(names):
                    starts.append(start)
                elif _is_blank(record):
                    left_out.append(number)
                elif bad.leave_out(start):
                    left_out.append(number)
                    ragged.append((start, len(record)))
                else:
                    ragged.append((start, len(record)))
                start = dialect.skipped_lines + reader.line_num + 1
        except csv.Error as error:
            problems = [_quote_problem(start, str(error), written)]
            problems += _ragged_problems(ragged, len(names), dialect, written)
            raise DataMistake(problems) from error
    bad.check(_ragged_problems(ragged, len(names), dialect, written))
    lines = np.array(starts, dtype=np.int64)
    return _Scan(names, lines, np.array(left_out, dtype=np.int64), tuple(bad.lines))


def _names(file: Path, dialect: _Dialect, written: str) -> tuple[str, ...]:
    """Of the columns: those of the header, or as many as the first row has fields."""
    with dialect.text(file) as text:
        records = dialect.records(text)
        if dialect.header:
            return _header(next(records, []), dialect, written)
        first = next((record for record in records if not _is_blank(record)), [])
    if not first:
        problem = Problem("the file holds no rows", found="blank lines", place=Place(written))
        raise DataMistake(problem)
    return tuple(f"column_{i}" for i in range(1, len(first) + 1))


def _is_blank(record: list[str]) -> bool:
    return not record or (len(record) == 1 and not record[0].strip())


def _header(first: list[str], dialect: _Dialect, written: str) -> tuple[str, ...]:
    if not any(name.strip() for name in first):
        raise DataMistake(
            Problem(
                "the first line holds no column names",
                found="a blank line",
                expected="a header line with the names of the columns",
                fix="remove the blank lines above the header, or write one",
                place=Place(written, 1),
            )
        )
    names = [name.strip() or f"column_{i}" for i, name in enumerate(first, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice and dialect.renames:
        return _renamed(names)
    if twice:
        raise DataMistake(
            Problem(
                "column names occur more than once",
                found=quoted(twice),
                expected="names that occur once",
                fix="rename the repeated columns in the header, set data.reading.repeated_names to "
                "rename, or data.reading.header to false if the first line is a row",
                place=Place(written, 1 + dialect.skipped_lines),
                kind="repeated_names",
            )
        )
    return tuple(names)


def _renamed(names: list[str]) -> tuple[str, ...]:
    """Each name once: the second `a` is `a_2`, unless another column is called so."""
    found: list[str] = []
    for name in names:
        free, number = name, 1
        while free in found or (number > 1 and free in names):
            number += 1
            free = f"{name}_{number}"
        found.append(free)
    return tuple(found)


def _quote_problem(line: int, detail: str, written: str) -> Problem:
    unclosed = "unexpected end" in detail or "field larger" in detail
    return Problem(
        "a quoted field does not end" if unclosed else "a quoted field is broken",
        found=detail,
        expected='a quote inside a quoted field is written twice: ""',
        fix="mend the quotes of the row that starts on this line, or set data.reading.quotes to "
        "none if quotes are part of the text",
        place=Place(written, line),
        kind="broken_quotes",
    )


def _ragged_problems(
    ragged: list[tuple[int, int]], width: int, dialect: _Dialect, written: str
) -> list[Problem]:
    problems = []
    for many in (True, False):
        chosen = [(line, count) for line, count in ragged if (count > width) is many]
        if not chosen:
            continue
        line, count = chosen[0]
        plural = "s" if len(chosen) > 1 else ""
        problems.append(
            Problem(
                f"rows have too {'many' if many else 'few'} fields",
                found=f"{count} fields; line{plural} {some([line for line, _ in chosen], _SHOWN)}",
                expected=f"{width}, as in the {'header' if dialect.header else 'first row'}",
                fix="quote fields that hold the separator, repair these rows, or allow some to "
                "be skipped: data.reading.bad_records",
                place=Place(written, line),
                kind="ragged_rows",
            )
        )
    return problems


def _wrote_fast(file: Path, dialect: _Dialect, scan: _Scan, target: Path) -> bool:
    """Read with polars; False where it does not see the same rows as the scan.

    It writes to a file of its own: a sink that fails may still write after it has raised.
    """
    aside = target.with_name(f"{target.name}.fast")
    rows = pl.scan_csv(
        file,
        separator=dialect.separator,
        has_header=dialect.header,
        skip_lines=dialect.skipped_lines,
        quote_char='"' if dialect.quoted else None,
        schema=dict.fromkeys(scan.names, pl.String),
        infer_schema=False,
        glob=False,
    )
    if len(scan.left_out):
        left_out = pl.Series(scan.left_out).implode()
        rows = rows.with_row_index("").filter(~pl.col("").is_in(left_out)).drop("")
    try:
        rows.sink_ipc(aside)
        height = pl.scan_ipc(aside).select(pl.len()).collect().item()
    except pl.exceptions.PolarsError:
        height = -1
    if height != len(scan.starts):
        aside.unlink(missing_ok=True)
        return False
    aside.replace(target)
    return True


def _write_exactly(file: Path, dialect: _Dialect, scan: _Scan, target: Path) -> None:
    """The records that Python's reader sees, block by block."""
    schema = dict.fromkeys(scan.names, pl.String)
    left_out = frozenset(scan.left_out.tolist())
    blocks: list[Path] = []
    with dialect.text(file) as text:
        reader = dialect.records(text)
        if dialect.header:
            next(reader)
        kept = (record for number, record in enumerate(reader) if number not in left_out)
        while records := list(islice(kept, _BLOCK_RECORDS)):
            blocks.append(target.with_name(f"records-{len(blocks)}.arrow"))
            pl.DataFrame(records, schema=schema, orient="row").write_ipc(blocks[-1])
    rows = pl.scan_ipc(blocks) if blocks else pl.LazyFrame(schema=schema)
    rows.sink_ipc(target)
