"""Detection of a file's format for a first contract, and of columns whose numbers have units."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, Problem, ProblemKind
from trainwright.core.formatting import many
from trainwright.data.base.messages import quoted, some
from trainwright.data.formats.encodings import encoding_of
from trainwright.data.formats.file_format import known_format
from trainwright.data.formats.number_formats import Commas, Look, how_written
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import SourceFile
from trainwright.planner.init.yaml_lines import comment, scalar

NUMBERED = re.compile(r"column_[1-9][0-9]*")
_TEXT = (".csv", ".tsv", ".tab")
_HEAD_BYTES = 256 * 1024
_HEAD_RECORDS = 60
_MOST_ABOVE = 20
_MOST_BAD = 0.05
_MOSTLY = 0.9
_MARKS = (",", ";", "\t", "|")
_NEAR = 12


@final
@dataclass(frozen=True, slots=True)
class FirstReading:
    """How a file is read, and each setting's line in the contract."""

    reading: Reading
    lines: dict[str, str] = field(default_factory=dict)

    def yaml(self) -> tuple[str, ...]:
        """Lines of `data.reading`; empty if the defaults work."""
        return ("  reading:", *self.lines.values()) if self.lines else ()

    def but(self, key: str, value: object, reason: str) -> FirstReading:
        """The same with another setting."""
        line = f"    {key}: {scalar(value) if isinstance(value, str) else _plain(value)}"
        return FirstReading(
            self.reading.model_copy(update={key: value}),
            {**self.lines, key: f"{line}  # {comment(reason)}"},
        )


def read_first(folder: Path, found: str, reading: Reading, target: str) -> FirstReading:
    """Find how a file can be read, starting from the known settings.

    Raises:
        Mistake: a problem that no setting can solve.
    """
    first = FirstReading(reading)
    file = folder / found
    if above := _lines_above(file, reading):
        what = f"{many(above, 'line')} above the header, such as {_line(file, reading)!r}"
        first = first.but("skip_lines", above, what)
    if NUMBERED.fullmatch(target) and reading.header and _is_headless(folder, found, first, target):
        first = first.but("header", value=False, reason="the target is named by its number")
    for _ in range(len(_MENDS) + 1):
        try:
            source = read_source(found, folder, "DATA", first.reading)
        except Mistake as mistake:
            mended = _mended(first, mistake, folder, found)
            if mended is None:
                raise
            first = mended
            continue
        return _counted(first, source)
    raise AssertionError("each setting mends once")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _mended(first: FirstReading, mistake: Mistake, folder: Path, found: str) -> FirstReading | None:
    """Another reading that solves the first solvable problem; None if there is none."""
    for problem in mistake.problems:
        if problem.kind not in _MENDS or _MENDS[problem.kind] in first.lines:
            continue
        match problem.kind:
            case "encoding":
                return _encoded(first, folder / found)
            case "control_characters":
                why = f"{problem.found}: such characters are removed"
                return first.but("control_characters", "remove", why)
            case "repeated_names":
                names = problem.found
                return first.but("repeated_names", "rename", f"{names} twice: the second is NAME_2")
            case "ragged_rows":
                return first.but("bad_records", 10**9, problem.found)
            case "broken_quotes":
                why = "a quote is part of the text: some do not end"
                return first.but("quotes", "none", why)
            case "nested_values":
                return first.but("nested", "text", "lists and objects become their JSON")
    return None


_MENDS: dict[ProblemKind, str] = {
    "encoding": "encoding",
    "control_characters": "control_characters",
    "repeated_names": "repeated_names",
    "ragged_rows": "bad_records",
    "broken_quotes": "quotes",
    "nested_values": "nested",
}


def _counted(first: FirstReading, source: SourceFile) -> FirstReading:
    """The reading with the actual number of bad records.

    Raises:
        Mistake: so many that something else must be wrong.
    """
    if "bad_records" not in first.lines:
        return first
    lines = [line for file in source.files for line in file.skipped]
    most = max((len(file.skipped) for file in source.files), default=0)
    if most > max(1, _MOST_BAD * (source.frame.height + most)):
        raise Mistake(
            Problem(
                "many rows have another number of fields than the header",
                path="DATA",
                found=f"{len(lines):,} of {source.frame.height + len(lines):,} rows, from line "
                f"{lines[0]:,} on",
                expected="rows like the header",
                fix="say how fields are divided, --set data.reading.separator=';', how many lines "
                "stand above the header, --set data.reading.skip_lines=2, or export the data again",
            )
        )
    left = {key: line for key, line in first.lines.items() if key != "bad_records"}
    why = f"{many(len(lines), 'row')} excluded, with too many or too few fields: line {some(lines)}"
    return FirstReading(first.reading, left).but("bad_records", most, why)


def _encoded(first: FirstReading, file: Path) -> FirstReading | None:
    if not file.is_file():
        return None
    sample, high = b"", 0
    with file.open("rb") as stream:
        for line in stream:
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                high += 1
                sample += line
            if len(sample) > _HEAD_BYTES:
                break
    guess = encoding_of(sample or file.open("rb").read(_HEAD_BYTES))
    text = sample.decode(guess, errors="replace")
    words = [word for word in re.findall(r"\w+", text) if not word.isascii()]
    shown = quoted(dict.fromkeys(word[:_NEAR] for word in words), 3)
    rests = (
        f"it rests on {many(high, 'line')}, which then read {shown}" if words else "by its marks"
    )
    return first.but("encoding", guess, f"a guess, for the file is not UTF-8: {rests}")


def _is_headless(folder: Path, found: str, first: FirstReading, target: str) -> bool:
    try:
        return target not in read_source(found, folder, "DATA", first.reading).frame.columns
    except Mistake:
        return True


def _records(file: Path, reading: Reading, mark: str) -> list[list[str]]:
    with file.open(encoding=reading.encoding, errors="replace", newline="") as stream:
        head = stream.read(_HEAD_BYTES).replace("\0", "").splitlines(keepends=True)
    try:
        return list(islice(csv.reader(head, delimiter=mark), _HEAD_RECORDS))
    except csv.Error:
        return []


def _lines_above(file: Path, reading: Reading) -> int:
    """Number of lines above the header of a CSV: they differ from the rows, which all have one
    number of fields. None if some delimiter splits the first line like those below it."""
    if file.suffix.lower() not in _TEXT or not file.is_file() or reading.skip_lines:
        return 0
    marks = [reading.separator] if reading.separator else _MARKS
    return min((_above(_records(file, reading, mark)) for mark in marks), default=_MOST_ABOVE) % (
        _MOST_ABOVE
    )


def _above(records: list[list[str]]) -> int:
    """Number of records above those of one width; `_MOST_ABOVE` if there are none such."""
    widths = [len(record) if any(record) else 0 for record in records]
    below = [width for width in widths[len(widths) // 3 :] if width > 1]
    if len(below) < 2:
        return _MOST_ABOVE
    width, count = Counter(below).most_common(1)[0]
    first = widths.index(width)
    # A title has one field, or few; a header that is one field short is none.
    is_title = not first or max(widths[:first]) <= width / 2
    regular = count >= _MOSTLY * len(below) and is_title
    return min(first, _MOST_ABOVE) if regular else _MOST_ABOVE


def _line(file: Path, reading: Reading) -> str:
    with file.open(encoding=reading.encoding, errors="replace") as stream:
        return stream.readline().strip()[:40]


def looks_headless(frame: pl.DataFrame) -> bool:
    """Do the column names look like the values of a row: numbers, or words that recur in their
    columns?"""
    if any(re.fullmatch(r"[+-]?\d*\.?\d+", name) for name in frame.columns):
        return True
    return any(
        series.dtype == pl.String and int((series == series.name).sum()) > 1
        for series in frame.get_columns()
    )


_SURE: Mapping[Look, tuple[Commas, str]] = {
    "decimal_comma": ("decimal_comma", "1,5 is 1.5"),
    "thousands_comma": ("thousands_comma", "1,234.5 is 1234.5"),
    "accounting": ("accounting", "(1,234.5) is -1234.5"),
}
_IN_DOUBT: Mapping[tuple[Commas, Look], str] = {
    ("decimal_comma", "either"): "1,234 is 1.234; thousands_comma would make it 1234",
    ("decimal_comma", "points"): "1.234 is 1234; without this line it is 1.234",
    ("thousands_comma", "either"): "1,234 is 1234; decimal_comma would make it 1.234",
}


def with_numbers(
    folder: Path, found: str, reading: Reading, lines: tuple[str, ...]
) -> tuple[Reading, tuple[str, ...]]:
    """A reading and its lines in the contract, with the columns whose numbers have commas.

    An ambiguous column is read like the others if they agree, and its line says so; if they do not,
    it is reported as doubtful.
    """
    source = read_source(found, folder, "DATA", reading)
    if not known_format(source.files[0].path):
        return reading, lines
    looks = {name: how_written(source.frame[name]) for name in source.frame.columns}
    known = {name: _SURE[look] for name, look in looks.items() if look in _SURE}
    ways = {"thousands_comma" if way == "accounting" else way for way, _ in known.values()}
    for name, look in looks.items():
        for way in ways if len(ways) == 1 else ():
            if why := _IN_DOUBT.get((way, look)):
                known[name] = way, f"in doubt, taken to be like the others: {why}"
    if known:
        written = [f"      {scalar(name)}: {way}  # {why}" for name, (way, why) in known.items()]
        lines = (*(lines or ("  reading:",)), "    numbers:", *written)
    numbers = {**{name: way for name, (way, _) in known.items()}, **reading.numbers}
    return reading.model_copy(update={"numbers": numbers}), lines
