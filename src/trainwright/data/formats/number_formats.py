"""Numbers with commas or parentheses, rewritten as `1234.5`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.messages import quoted
from trainwright.data.formats.file_format import ParseResult

Commas = Literal["decimal_comma", "thousands_comma", "accounting"]

Look = Commas | Literal["either", "points", "plain"]
"""How a column looks. `either`: its commas may be of both kinds, as in `1,234`. `points`: it has no
comma, and every point may stand between thousands, as in `1.234`."""

# One and the same mark within a number: a point, an apostrophe, or a blank of three kinds.
_MARKS = (r"\.", "'", "\u2019", " ", "\u00a0", "\u202f")
_GROUPS = "[1-9][0-9]{0,2}(?:" + "|".join(f"(?:{mark}[0-9]{{3}})+" for mark in _MARKS) + ")"

_DECIMAL_COMMA = rf"^\s*[+-]?(?:{_GROUPS}(?:,[0-9]+)?|(?:[0-9]*,)?[0-9]+(?:[eE][+-]?[0-9]+)?)\s*$"
_POINTED = (
    r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?"
    r"|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_THOUSANDS_COMMA = rf"^\s*[+-]?{_POINTED}\s*$"
_ACCOUNTING = rf"^\s*(?:[+-]?{_POINTED}|\(\s*{_POINTED}\s*\))\s*$"
_PATTERNS: Mapping[Commas, str] = MappingProxyType(
    {
        "decimal_comma": _DECIMAL_COMMA,
        "thousands_comma": _THOUSANDS_COMMA,
        "accounting": _ACCOUNTING,
    }
)
_WORDS: Mapping[Commas, tuple[str, str]] = MappingProxyType(
    {
        "decimal_comma": ("with a decimal comma", "1.234,5"),
        "thousands_comma": ("with a thousands comma", "1,234.5"),
        "accounting": ("as in accounting", "1,234.5 or (1,234.5)"),
    }
)
_IN_PARENTHESES = r"^\s*\(\s*[0-9.][0-9.,]*\s*\)\s*$"
_LIKE_A_NUMBER = r"^[\s.,'\u2019+-]*\d[\d\s.,'\u2019eE+-]*$"
_TEXT = (pl.String, pl.Categorical, pl.Enum)
_MOSTLY = 0.9
_LOOKED_AT = 10_000
_SHOWN = 3
_FEWEST_BARE = 0.1


def how_written(cells: pl.Series) -> Look:
    """Apparent number format of an unconfigured text column, for messages and proposals only; it
    does not affect reading."""
    if cells.dtype != pl.String:
        return "plain"
    first = cells.drop_nulls().head(_LOOKED_AT)
    if _is_accounting(cells, first):
        return "accounting"
    if not _are_numbers(first):
        return "plain"
    numbers = cells.filter(cells.str.contains(_LIKE_A_NUMBER))
    decimal = bool(numbers.str.contains(_DECIMAL_COMMA).all())
    thousands = bool(numbers.str.contains(_THOUSANDS_COMMA).all())
    if not numbers.str.contains(",", literal=True).any():
        return "points" if decimal and numbers.str.contains(".", literal=True).any() else "plain"
    if decimal and thousands:
        return "either"
    if decimal:
        return "decimal_comma"
    return "thousands_comma" if thousands else "plain"


def _are_numbers(cells: pl.Series) -> bool:
    present = cells.filter(cells.str.contains(r"\S"))
    like = int(present.str.contains(_LIKE_A_NUMBER).sum())
    return like > 0 and like >= _MOSTLY * len(present)


def _is_accounting(cells: pl.Series, first: pl.Series) -> bool:
    """Whether some numbers stand in parentheses among others that do not: all in parentheses may be
    notes or citations."""
    if not first.str.contains("(", literal=True).any():
        return False
    negative = first.str.contains(_IN_PARENTHESES)
    others = first.filter(~negative)
    if len(others) < _FEWEST_BARE * len(first) or not (negative.any() and _are_numbers(others)):
        return False
    like = cells.str.contains(_LIKE_A_NUMBER) | cells.str.contains(_IN_PARENTHESES)
    return bool(cells.filter(like).str.contains(_ACCOUNTING).all())


def spelled(number: str, way: Commas) -> str:
    """A number of the point that stands bare in JSON, in the spelling of the texts around it."""
    return number.replace(".", ",") if way == "decimal_comma" else number


def rewrite_commas(
    rows: Path, ways: Mapping[str, Commas], parsed: ParseResult, written: str
) -> None:
    """Rewrite the numbers of some columns of text in an Arrow file as `1234.5`.

    What becomes of a cell depends on the cell and on `ways` alone, so that every file of a contract
    is read alike. What does not look like a number stays, and so do other columns, and columns that
    hold numbers by their type.

    Raises:
        DataMistake: a cell looks like a number and is not written as its column should be.
    """
    table = pl.scan_ipc(rows)
    types = table.collect_schema()
    names = [name for name, one in types.items() if name in ways and isinstance(one, _TEXT)]
    if not names:
        return
    table = table.with_columns(pl.col(names).cast(pl.String))
    wrong = table.select(
        _is_other(name, ways[name]).any().alias(str(i)) for i, name in enumerate(names)
    ).collect(engine="streaming")
    if others := [name for i, name in enumerate(names) if wrong[str(i)][0]]:
        raise DataMistake([_other(table, name, ways[name], parsed, written) for name in others])
    target = rows.with_name("commas.arrow")
    table.with_columns(_rewritten(name, ways[name]) for name in names).sink_ipc(target)
    target.replace(rows)


def _is_number(name: str, way: Commas) -> pl.Expr:
    return pl.col(name).str.contains(_PATTERNS[way])


def _is_other(name: str, way: Commas) -> pl.Expr:
    like = pl.col(name).str.contains(_LIKE_A_NUMBER)
    if way == "accounting":
        like |= pl.col(name).str.contains(_IN_PARENTHESES)
    return like & ~_is_number(name, way)


def _rewritten(name: str, way: Commas) -> pl.Expr:
    number = pl.col(name).str.strip_chars()
    if way == "decimal_comma":
        number = number.str.replace_all(f"[{''.join(_MARKS)}]", "")
        number = number.str.replace(",", ".", literal=True)
    else:
        number = number.str.replace_all(",", "", literal=True)
    if way == "accounting":
        number = number.str.replace(r"^\(\s*(.*?)\s*\)$", "-${1}")
    return pl.when(_is_number(name, way)).then(number).otherwise(pl.col(name)).alias(name)


def _other(
    table: pl.LazyFrame, name: str, way: Commas, parsed: ParseResult, written: str
) -> Problem:
    numbered = table.select(name).with_row_index("")
    wrong = numbered.filter(_is_other(name, way)).head(_SHOWN).collect(engine="streaming")
    row = int(wrong[""][0])
    has_lines = len(parsed.lines) > 0
    words, expected = _WORDS[way]
    return Problem(
        f"the column's numbers are not all written {words}",
        path=name,
        found=quoted(wrong[name].to_list()) + ("" if has_lines else f", first in row {row + 1:,}"),
        expected=expected,
        fix=f"write all of them alike, or correct data.reading.numbers.{as_key(name)}",
        place=Place(written, int(parsed.lines[row]) if has_lines else 0),
    )
