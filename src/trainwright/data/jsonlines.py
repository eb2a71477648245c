"""JSON Lines: one flat object a line, every value as the text it was written with."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.data.table import Integers
from trainwright.data.wording import quoted, some

_SHOWN = 5


class _RepeatedKey(ValueError):
    """An object names a key twice."""


def read_json_lines(text: str, written: str) -> tuple[pl.DataFrame, Integers]:
    """The rows as strings (null where a key is absent), and the line [N] of each.

    Numbers keep their spelling, so that they are typed by the same rules as those of a CSV.

    Raises:
        DataMistake: lines that are not flat JSON objects; the first few are named.
    """
    rows: list[dict[str, str | None]] = []
    lines: list[int] = []
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(_flat(_load(line)))
            lines.append(number)
        except ValueError as error:
            problems.append(_line_problem(error, line, Place(written, number)))
    if problems:
        raise DataMistake(problems[:_SHOWN])
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    frame = pl.DataFrame(columns, schema=dict.fromkeys(names, pl.String))
    return frame, np.array(lines, dtype=np.int64)


def _load(line: str) -> Json:
    return json.loads(
        line, parse_float=str, parse_int=str, parse_constant=str, object_pairs_hook=_unique
    )


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    counts = Counter(name for name, _ in pairs)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise _RepeatedKey(f"keys occur more than once: {quoted(twice)}")
    return dict(pairs)


def _flat(value: Json) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise ValueError("the line is not an object {...}")  # noqa: TRY004 (reported as a Problem)
    nested = [name for name, item in value.items() if isinstance(item, (dict, list))]
    if nested:
        raise ValueError(f"values are nested in {some(nested)}")
    return {name.strip(): _as_text(item) for name, item in value.items()}


def _as_text(item: str | bool | None) -> str | None:
    if isinstance(item, bool):
        return "true" if item else "false"
    return item


def _line_problem(error: ValueError, line: str, place: Place) -> Problem:
    not_json = isinstance(error, json.JSONDecodeError)
    return Problem(
        f"the line is not JSON: {error}" if not_json else str(error),
        found=line.strip()[:80],
        expected='one flat object a line, for example {"age": 39, "sex": "Male"}',
        fix="repair the line, or write one object on each line",
        place=place,
    )
