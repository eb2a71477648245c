"""JSON Lines: one object per line, values as strings, nested ones as text.

Chats come as lists of turns in two spellings: `{"role": ..., "content": ...}` (chat completions)
and `{"from": ..., "value": ...}` (ShareGPT, which many collections of conversations stem from).
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Place, Problem
from trainwright.core.files import Json
from trainwright.core.limits import CELL_BYTES
from trainwright.data.base.messages import quoted, some
from trainwright.data.formats.encodings import check_columns, check_expansion
from trainwright.data.formats.file_format import BadRecords, ParseResult
from trainwright.data.formats.number_formats import spelled

_SPELLINGS = (("role", "content"), ("from", "value"))
_SHOWN = 5
_BLOCK_RECORDS, _BLOCK_CELLS = 50_000, 4_000_000
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def nested_text(value: Json, nested: Literal["text", "chat"]) -> str:
    """A list or an object as text.

    Under `chat` a list of turns has a line for each, `role: content`. What a turn holds beside
    these two, such as the calls of tools, stands behind the content as JSON.

    Raises:
        ValueError: a list holds turns and something else.
    """
    if nested == "chat" and isinstance(value, list):
        for role, content in _SPELLINGS:
            if any(isinstance(turn, dict) and role in turn for turn in value):
                lines = [_turn(turn, at, role, content) for at, turn in enumerate(value, start=1)]
                return "".join(f"{line}\n" for line in lines)
    return _json(value)


def with_text(rows: pl.LazyFrame, nested: Literal["text", "chat"]) -> pl.LazyFrame:
    """The rows with every column of lists or structs as text; a missing value stays one."""

    def text(value: Json) -> str:
        return nested_text(value.to_list() if isinstance(value, pl.Series) else value, nested)

    nested_types = {name: one for name, one in rows.collect_schema().items() if one.is_nested()}
    arrays = [name for name, one in nested_types.items() if isinstance(one, pl.Array)]
    names = list(nested_types)
    rows = rows.with_columns(pl.col(name).arr.to_list() for name in arrays)
    return rows.with_columns(pl.col(name).map_elements(text, pl.String) for name in names)


def _turn(turn: Json, number: int, role: str, content: str) -> str:
    if not isinstance(turn, dict) or turn.get(role) is None or content not in turn:
        raise ValueError(f"turn {number} is no turn: it lacks {role!r} or {content!r}")
    others = {
        key: item for key, item in turn.items() if key not in (role, content) and item is not None
    }
    said = turn[content]
    words = said if isinstance(said, str) else "" if said is None else _json(said)
    return f"{turn[role]}: {words}" + (f" {_json(others)}" if others else "")


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class _Bare(str):
    """A number without quotes."""

    __slots__ = ()


class _RepeatedKey(ValueError):
    """An object names a key twice."""


class _Nested(ValueError):
    """An object holds lists or objects, without a setting for reading them."""


def read_json_lines(file: Path, written: str, reading: Reading, target: Path) -> ParseResult:
    """Write the rows of a file in UTF-8 as strings (null where a key is absent) into the Arrow file
    `target`.

    Numbers keep their spelling, so that they are typed by the same rules as those of a CSV.

    Raises:
        DataMistake: lines that are not flat JSON objects; the first few are named.
    """
    bad = BadRecords(reading.bad_records)
    problems: list[Problem] = []
    lines = array("q")
    rows: list[dict[str, str | None]] = []
    names: set[str] = set()
    known: set[str] = set()
    blocks: list[Path] = []
    starts_as_list = False
    size = file.stat().st_size
    for number, line in _lines(file):
        starts_as_list = starts_as_list or (not lines and not problems and line.lstrip()[:1] == "[")
        try:
            rows.append(_row(line, reading))
            lines.append(number)
            names.update(rows[-1])
        except ValueError as error:
            bad.leave_out(number)
            if len(problems) < _SHOWN:
                problems.append(_problem(error, line, Place(written, number)))
        if len(rows) == _BLOCK_RECORDS or len(rows) * len(names) > _BLOCK_CELLS:
            known |= names
            check_columns(len(known), written, reading, number)
            check_expansion(len(lines) * len(known) * CELL_BYTES, size, written, reading)
            blocks.append(_write(rows, target.with_name(f"records-{len(blocks)}.arrow")))
            rows, names = [], set()
    check_columns(len(known | names), written, reading)
    check_expansion(len(lines) * len(known | names) * CELL_BYTES, size, written, reading)
    bad.check(problems if not starts_as_list else [_list_problem(problems[0])])
    _join(blocks, rows, target)
    return ParseResult(np.array(lines, dtype=np.int64), tuple(bad.lines))


def _join(blocks: list[Path], rows: list[dict[str, str | None]], target: Path) -> None:
    frames = [pl.scan_ipc(block) for block in blocks]
    if rows or not frames:
        frames.append(_frame(rows).lazy())
    pl.concat(frames, how="diagonal").sink_ipc(target)


def _row(line: str, reading: Reading) -> dict[str, str | None]:
    try:
        row = _flat(_load(line, _Bare if reading.numbers else str), line, reading.nested)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None
    for name, way in reading.numbers.items():
        item = row.get(name)
        if isinstance(item, _Bare):
            row[name] = spelled(item, way)
    return row


def _load(line: str, number: type[str]) -> Json:
    """A line as JSON; each number is a `number`, with the text it was written with.

    Raises:
        ValueError: it is not JSON, names a key twice, is nested without end or holds what is no
            letter.
    """
    try:
        value = json.loads(
            line,
            parse_float=number,
            parse_int=number,
            parse_constant=str,
            object_pairs_hook=_unique,
        )
        if _SURROGATE.search(line):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a letter: \\ud800 to \\udfff stand in pairs") from None
    return value


def _problem(error: ValueError, line: str, place: Place) -> Problem:
    not_json = isinstance(error, json.JSONDecodeError)
    nested = isinstance(error, _Nested)
    return Problem(
        f"the line is not JSON: {error}" if not_json else str(error),
        found=line.strip()[:80],
        expected='one flat object a line, for example {"age": 39, "sex": "Male"}',
        fix="set data.reading.nested to text, or to chat for lists of turns"
        if nested
        else "repair the line, write one object on each line, or allow some to be skipped: "
        "data.reading.bad_records",
        place=place,
        kind="nested_values" if nested else "",
    )


def _list_problem(first: Problem) -> Problem:
    """That of a file whose first line opens a list."""
    return replace(
        first,
        message="the file is a list of JSON, or a line of it is",
        fix=f"write one object on each line: jq -c '.[]' {first.place.file} > rows.jsonl",
    )


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold something, with their numbers from 1."""
    with file.open(encoding="utf-8-sig", newline="\n") as stream:
        for number, line in enumerate(stream, start=1):
            if line.strip():
                yield number, line


def _frame(rows: list[dict[str, str | None]]) -> pl.DataFrame:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))


def _write(rows: list[dict[str, str | None]], block: Path) -> Path:
    _frame(rows).write_ipc(block)
    return block


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """The object; blanks around a key never count."""
    found = {name.strip(): item for name, item in pairs}
    if len(found) < len(pairs):
        counts = Counter(name.strip() for name, _ in pairs)
        twice = [name for name, count in counts.items() if count > 1]
        raise _RepeatedKey(f"keys occur more than once: {quoted(twice)}")
    return found


def _flat(
    value: Json, line: str, nested: Literal["refuse", "text", "chat"]
) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise ValueError("the line is not an object {...}")  # noqa: TRY004 (reported as a Problem)
    if not value:
        raise ValueError("the object is empty")
    inner = [name for name, item in value.items() if isinstance(item, (dict, list))]
    if not inner:
        return {name: _as_text(item) for name, item in value.items()}
    if nested == "refuse":
        raise _Nested(f"values are nested in {some(inner)}")
    # Read again: inside a nested value a number is one, and no text.
    whole = {name.strip(): item for name, item in json.loads(line).items()}
    return {
        name: nested_text(whole[name], nested) if name in inner else _as_text(item)
        for name, item in value.items()
    }


def _as_text(item: str | bool | None) -> str | None:
    if isinstance(item, bool):
        return "true" if item else "false"
    return item
