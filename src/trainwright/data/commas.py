"""Numbers of text files that are written with commas, rewritten as `1234.5`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.parsed import Parsed
from trainwright.data.wording import quoted

Commas = Literal["decimal_comma", "thousands_comma"]

# What may stand between thousands beside a comma: a point, an apostrophe, a blank of three kinds.
_MARKS = "[.'\u2019 \u00a0\u202f]"
_GROUPS = rf"[1-9]\d{{0,2}}({_MARKS}\d{{3}})+"

DECIMAL_COMMA = rf"^\s*[+-]?(\d+|{_GROUPS})?,\d+\s*$"
"""`1,5` and `1.234,5`; also `1,234`, of which nobody can tell which of the two it is."""

THOUSANDS = r"^\s*[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*$"
"""`1,234` and `1,234.5`."""

_GROUPED = rf"^\s*[+-]?{_GROUPS}\s*$"
_PLAIN = r"^\s*[+-]?\d+(\.\d*)?\s*$"
_WITH_POINT = r"^\s*[+-]?\d*\.\d+([eE][+-]?\d+)?\s*$"
_MOSTLY = 0.9
_LOOKED_AT = 10_000
_SHOWN = 3


def how_written(frame: pl.DataFrame) -> Commas | Literal["plain"]:
    """How columns of text write numbers, as far as commas tell it without a doubt."""
    found = {_way_of(frame[name].drop_nulls().head(_LOOKED_AT)) for name in frame.columns}
    if found >= {"decimal_comma", "thousands_comma"}:
        return "plain"
    return next((way for way in found if way != "plain"), "plain")


def _way_of(cells: pl.Series) -> Commas | Literal["plain"]:
    if cells.dtype != pl.String:
        return "plain"
    cells = cells.filter(cells.str.contains(r"\S"))
    thousands, decimal = cells.str.contains(THOUSANDS), cells.str.contains(DECIMAL_COMMA)
    numbers = thousands | decimal | cells.str.contains(_PLAIN) | cells.str.contains(_GROUPED)
    if not len(cells) or int(numbers.sum()) < _MOSTLY * len(cells):
        return "plain"
    if (decimal & ~thousands).any():
        return "plain" if (thousands & ~decimal).any() else "decimal_comma"
    return "thousands_comma" if thousands.any() else "plain"


def rewrite_commas(rows: Path, way: Commas, parsed: Parsed, written: str) -> None:
    """Rewrite the numbers in an Arrow file of strings as `1234.5`.

    `decimal_comma`: points, blanks and apostrophes between thousands go too, in columns in which
    no number has a decimal point. Cells that hold anything else stay.

    Raises:
        DataMistake: a column holds commas of both kinds.
    """
    table = pl.scan_ipc(rows)
    names = table.collect_schema().names()
    counts = table.select(
        *(_certain(name, way).sum().alias(f"certain {i}") for i, name in enumerate(names)),
        *(_other(name, way).sum().alias(f"other {i}") for i, name in enumerate(names)),
    ).collect(engine="streaming")
    other = [name for i, name in enumerate(names) if counts[f"other {i}"][0]]
    both = [n for i, n in enumerate(names) if n in other and counts[f"certain {i}"][0]]
    if both:
        raise DataMistake([_mixed(table, name, way, parsed, written) for name in both])
    target = rows.with_name("commas.arrow")
    _rewritten(table, [name for name in names if name not in other], way).sink_ipc(target)
    target.replace(rows)


def _certain(name: str, way: Commas) -> pl.Expr:
    """Whether a cell is written this way."""
    return pl.col(name).str.contains(DECIMAL_COMMA if way == "decimal_comma" else THOUSANDS)


def _other(name: str, way: Commas) -> pl.Expr:
    """Whether a cell can only be a number that is written in the other way."""
    cell = pl.col(name)
    if way == "decimal_comma":
        return (cell.str.contains(_WITH_POINT) & ~cell.str.contains(_GROUPED)) | cell.str.contains(
            r"\d,\d{3}\.\d"
        )
    return cell.str.contains(DECIMAL_COMMA) & ~cell.str.contains(THOUSANDS)


def _rewritten(table: pl.LazyFrame, names: Sequence[str], way: Commas) -> pl.LazyFrame:
    rewritten = []
    for name in names:
        cell, number = pl.col(name), pl.col(name).str.strip_chars()
        is_number = _certain(name, way)
        if way == "decimal_comma":
            is_number |= cell.str.contains(_GROUPED)
            number = number.str.replace_all(_MARKS, "").str.replace(",", ".", literal=True)
        else:
            number = number.str.replace_all(",", "", literal=True)
        rewritten.append(pl.when(is_number).then(number).otherwise(cell).alias(name))
    return table.with_columns(rewritten)


def _mixed(table: pl.LazyFrame, name: str, way: Commas, parsed: Parsed, written: str) -> Problem:
    numbered = table.select(name).with_row_index("")
    wrong = numbered.filter(_other(name, way)).head(_SHOWN).collect(engine="streaming")
    return Problem(
        "the numbers of a column are written in two ways",
        path=name,
        found=quoted(wrong[name].to_list()),
        expected="1.234,5" if way == "decimal_comma" else "1,234.5",
        fix="write all of them alike, or correct data.reading.numbers",
        place=Place(written, int(parsed.lines[wrong[""][0]])),
    )
