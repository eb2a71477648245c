"""Text with separators: every field a string, every broken line named."""

from __future__ import annotations

import csv
import io
from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.table import Integers
from trainwright.data.wording import quoted, some

_OTHER_SEPARATORS = (";", "\t", "|")
_SHOWN = 5


def decode(data: bytes, written: str) -> str:
    """UTF-8 bytes as text, without a byte order mark.

    Raises:
        DataMistake: naming the first byte that is not UTF-8 and its line.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataMistake(
            Problem(
                "the text is not UTF-8",
                found=f"byte 0x{data[error.start]:02x} at offset {error.start}",
                expected="UTF-8",
                fix=f"iconv -f WINDOWS-1252 -t UTF-8 '{written}' > utf8.csv (or the encoding it "
                "was written in)",
                place=Place(written, line),
            )
        ) from error


@final
@dataclass(frozen=True, slots=True)
class _Scan:
    """The shape of a delimited text. `starts` holds the line of each row, `blank` the record
    numbers (0 is the first after the header) of lines that hold nothing."""

    names: tuple[str, ...]
    starts: Integers
    blank: Integers


def read_delimited(
    text: str, kind: Literal["csv", "tsv"], written: str
) -> tuple[pl.DataFrame, Integers]:
    """The rows of CSV or TSV text, all strings, and the line [N] on which each row starts.

    In a `.csv` whose header holds no comma, `;`, tab or `|` separates if the header holds one.
    Quotes are `"`, doubled inside a quoted field. Lines that hold nothing are left out.

    Raises:
        DataMistake: duplicate column names, broken quotes, rows with a wrong number of fields.
    """
    separator = "\t" if kind == "tsv" else _separator_of(text)
    scan = _scan(text, separator, written)
    frame = _fast_frame(text, separator, scan)
    if frame is None:
        frame = _exact_frame(text, separator, scan)
    return frame, scan.starts


def _separator_of(text: str) -> str:
    header = text[: text.find("\n")] if "\n" in text else text
    if "," in header:
        return ","
    return next((mark for mark in _OTHER_SEPARATORS if mark in header), ",")


def _scan(text: str, separator: str, written: str) -> _Scan:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    starts, blank = array("q"), array("q")
    ragged: list[tuple[int, int]] = []
    start, number = 1, 0
    names: tuple[str, ...] = ()
    try:
        names = _names(next(reader, []), written)
        start = reader.line_num + 1
        for number, record in enumerate(reader):
            if len(record) == len(names):
                starts.append(start)
            elif not record or (len(record) == 1 and not record[0].strip()):
                blank.append(number)
            else:
                ragged.append((start, len(record)))
            start = reader.line_num + 1
    except csv.Error as error:
        problems = [_quote_problem(start, str(error), written)]
        raise DataMistake(problems + _ragged_problems(ragged, len(names), written)) from error
    if ragged:
        raise DataMistake(_ragged_problems(ragged, len(names), written))
    return _Scan(names, np.array(starts, dtype=np.int64), np.array(blank, dtype=np.int64))


def _names(header: list[str], written: str) -> tuple[str, ...]:
    if not any(name.strip() for name in header):
        raise DataMistake(
            Problem(
                "the first line holds no column names",
                found="a blank line",
                expected="a header line with the names of the columns",
                fix="remove the blank lines above the header, or write one",
                place=Place(written, 1),
            )
        )
    names = [name.strip() or f"column_{i}" for i, name in enumerate(header, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataMistake(
            Problem(
                "column names occur more than once",
                found=quoted(twice),
                expected="names that occur once",
                fix="rename or remove the repeated columns in the header",
                place=Place(written, 1),
            )
        )
    return tuple(names)


def _quote_problem(line: int, detail: str, written: str) -> Problem:
    unclosed = "unexpected end" in detail or "field larger" in detail
    return Problem(
        "a quoted field does not end" if unclosed else "a quoted field is broken",
        found=detail,
        expected='a quote inside a quoted field is written twice: ""',
        fix="mend the quotes of the row that starts on this line",
        place=Place(written, line),
    )


def _ragged_problems(ragged: list[tuple[int, int]], width: int, written: str) -> list[Problem]:
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
                expected=f"{width}, as in the header",
                fix="quote fields that hold the separator, or repair these rows",
                place=Place(written, line),
            )
        )
    return problems


def _fast_frame(text: str, separator: str, scan: _Scan) -> pl.DataFrame | None:
    """Read with polars; None where it does not see the same rows as the scan."""
    try:
        frame = pl.read_csv(text.encode(), separator=separator, infer_schema=False)
    except pl.exceptions.PolarsError:
        return None
    if frame.width != len(scan.names):
        return None
    frame.columns = list(scan.names)
    if len(scan.blank):
        kept = np.ones(frame.height, dtype=np.bool_)
        kept[scan.blank[scan.blank < frame.height]] = False
        frame = frame.filter(pl.Series(kept))
    return frame if frame.height == len(scan.starts) else None


def _exact_frame(text: str, separator: str, scan: _Scan) -> pl.DataFrame:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    next(reader)
    blank = set(scan.blank.tolist())
    records = [record for number, record in enumerate(reader) if number not in blank]
    schema = dict.fromkeys(scan.names, pl.String)
    return pl.DataFrame(records, schema=schema, orient="row")
