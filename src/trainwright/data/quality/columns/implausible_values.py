"""Invalid and implausible values: constraints and patterns of the contract, and limits of
nature."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.quality import FindingKind
from trainwright.contract.sections.data.table_data import Column
from trainwright.core.errors import ContractMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.messages import quoted
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding


def whole_matches(words: pl.Series, pattern: str, path: str) -> pl.Series:
    """Full match of each word with the pattern; null stays null.

    Raises:
        ContractMistake: the engine does not support the pattern, or it is too large; `path` is its
            contract path.
    """
    try:
        return words.str.contains(f"^(?:{pattern})$")
    except pl.exceptions.ComputeError as error:
        raise ContractMistake(_unknown(pattern, path, str(error))) from None


def problem_with_pattern(pattern: str, path: str) -> Problem | None:
    """The engine's objection to a pattern, if any."""
    try:
        whole_matches(pl.Series([""], dtype=pl.String), pattern, path)
    except ContractMistake as mistake:
        return mistake.problems[0]
    return None


def _unknown(pattern: str, path: str, said: str) -> Problem:
    before = said.partition("This error occurred")[0].strip().splitlines()
    reason = before[-1].removeprefix("error: ") if before else said
    return Problem(
        "the pattern cannot be matched in linear time",
        path=path,
        found=f"{pattern[:200]!r}: {reason.removeprefix('regex error: ')[:200]}",
        expected="a regular expression without look-around and back-references",
        fix=f"write it without them, or list the values in {path.removesuffix('pattern')}allowed",
    )


SchemaKind = Literal[
    "out_of_range", "unexpected_value", "pattern_mismatch", "not_unique", "forbidden_missing"
]
"""Column constraints of the contract that a row can violate."""

_FEW = 0.01
_SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0)
_FEWEST_SENTINELS = 3
_DISTINCT = 50
_MOST_ZEROS, _FAR_FROM_ZERO, _STEPS_FROM_ZERO = 0.4, 0.2, 1.5
_SIGNED = frozenset(
    {"temp", "temperature", "tmin", "tmax", "tmean", "dew", "dewp", "dewpt", "alt", "altitude"}
    | {"elevation", "lat", "latitude", "lon", "longitude", "change", "diff", "difference", "log"}
)
"""Words in the names of numbers that are negative now and then."""

_PILE = 3.0
_RUNS = 0.2
_FEWEST_PILE = 20
_NEIGHBOURS = 10
_PILE_SHARE = 0.002


def unlikely_values(data: ExaminedData) -> list[Finding]:
    """Rare negative numbers, and sentinel values for missing."""
    found = []
    for look in data.telling:
        if look.kind != "numeric" or len(look.values.drop_nulls()) < _DISTINCT:
            continue
        values = look.values
        sentinels = list(_sentinels(values))
        negative = ((values < 0) & ~values.is_in([one for one, _ in sentinels])).fill_null(False)
        count = int(negative.sum())
        if 0 < count <= _FEW * len(values) and not name_tokens(look.name) & _SIGNED:
            text = f"{look.name!r} is negative in {many(count, 'row')} only"
            found.append(_unlikely(data, look, negative, text))
        for one, nearest in sentinels:
            rows = (values == one).fill_null(False)
            text = (
                f"{look.name!r} is {one:g} in {int(rows.sum()):,} rows, far from every other value "
                f"(the nearest is {nearest:g}): possibly a placeholder for missing"
            )
            found.append(_unlikely(data, look, rows, text))
        if text := _zeros(values):
            zeros = (values == 0).fill_null(False)
            fix = f'data.columns.{as_key(look.name)}.values: {{"0": ""}} makes them missing'
            found.append(replace(_unlikely(data, look, zeros, f"{look.name!r} {text}"), fix=fix))
    return found


def _zeros(values: pl.Series) -> str:
    """Message for implausible zeros: no other value is nearly as small, and zero is no count."""
    numbers = values.drop_nulls().to_numpy()
    positive = np.sort(numbers[numbers > 0])
    zeros = len(numbers) - len(positive)
    if not len(positive) or len(np.unique(positive)) < _DISTINCT / 2 or float(numbers.min()) < 0:
        return ""
    least, middle = float(positive[0]), float(np.median(positive))
    is_count = least <= _STEPS_FROM_ZERO * float(np.diff(np.unique(positive)).min())
    few = not is_count and _FEWEST_SENTINELS <= zeros <= _MOST_ZEROS * len(numbers)
    if not few or least < _FAR_FROM_ZERO * middle:
        return ""
    return (
        f"is 0 in {zeros:,} rows, and at least {least:g} in the others (median {middle:g}): "
        "possibly a placeholder for missing"
    )


def _sentinels(values: pl.Series) -> Iterator[tuple[float, float]]:
    """Frequent numbers such as 999 or -1 far from all other values, each with its nearest one."""
    numbers = values.drop_nulls().unique().sort().to_numpy()
    if len(numbers) < _DISTINCT / 5:
        return
    for end, nearest in ((numbers[-1], numbers[-2]), (numbers[0], numbers[1])):
        others = numbers[numbers != end]
        far = abs(end - nearest) > 0.25 * (others.max() - others.min())
        if end in _SENTINELS and far and int((values == end).sum()) >= _FEWEST_SENTINELS:
            yield float(end), float(nearest)


def _unlikely(data: ExaminedData, look: ColumnView, rows: pl.Series, message: str) -> Finding:
    return Finding(
        "unlikely_values",
        "warning",
        message,
        int(rows.sum()),
        data.places(rows),
        (look.name,),
        f"declare the valid values: data.columns.{as_key(look.name)}.range: [low, high], or add "
        "the spelling to data.missing_values",
    )


def capped(data: ExaminedData) -> list[Finding]:
    """Censored columns: a pile of rows at the largest or smallest value."""
    found = []
    for look in data.looks:
        if look.kind != "numeric" or look.name in data.left_out:
            continue
        numbers, sizes = np.unique(look.values.drop_nulls().to_numpy(), return_counts=True)
        if len(numbers) < _DISTINCT:
            continue
        for at, beside in ((-1, slice(-1 - _NEIGHBOURS, -1)), (0, slice(1, 1 + _NEIGHBOURS))):
            pile, end = int(sizes[at]), float(numbers[at])
            enough = max(_FEWEST_PILE, _PILE_SHARE * sizes.sum())
            runs = int((look.values == end).fill_null(False).rle().struct.field("value").sum())
            if runs < _RUNS * pile:
                # Adjacent rows of one subject, or a stuck sensor.
                continue
            if pile < enough or pile < _PILE * sizes[beside].max() or (at == 0 and end == 0):
                continue
            name = "largest" if at else "smallest"
            found.append(
                Finding(
                    "capped",
                    "warning" if look.name == data.target else "info",
                    f"{look.name!r} is {end:g}, its {name} value, in {pile:,} rows: values "
                    "beyond appear to be clipped",
                    pile,
                    data.places((look.values == end).fill_null(False)),
                    (look.name,),
                    "a model cannot distinguish these rows; evaluate them as a slice",
                )
            )
    return found


def against_schema(data: ExaminedData, columns: Mapping[str, Column]) -> list[Finding]:
    """Rows that violate a column constraint of the contract: `range`, `allowed`, `pattern`,
    `unique`, `nullable`."""
    found: list[Finding] = []
    for look in data.looks:
        if look.name in columns:
            found += _against(data, look, columns[look.name])
    return found


def broken_rows(look: ColumnView, column: Column) -> BrokenRows:
    """Rows that violate the constraints of a column."""
    asked: dict[SchemaKind, bool] = {
        "out_of_range": column.range != "any" and look.kind == "numeric",
        "unexpected_value": bool(column.allowed),
        "pattern_mismatch": bool(column.pattern),
        "not_unique": column.unique,
        "forbidden_missing": not column.nullable,
    }
    return BrokenRows(look, column, tuple(kind for kind, can_be in asked.items() if can_be))


@final
@dataclass(frozen=True, slots=True)
class BrokenRows:
    """Boolean row masks of the violated constraints by kind, computed on access."""

    look: ColumnView
    column: Column
    kinds: tuple[SchemaKind, ...]

    def __contains__(self, kind: FindingKind) -> bool:
        return kind in self.kinds

    def __getitem__(self, kind: FindingKind) -> pl.Series:
        look, column = self.look, self.column
        match kind:
            case "out_of_range":
                low, high = _ends(column)
                return ((look.values < low) | (look.values > high)).fill_null(False)
            case "unexpected_value":
                return (~_words(look).is_in(_allowed(look, column).implode())).fill_null(False)
            case "pattern_mismatch":
                path = f"data.columns.{as_key(look.name)}.pattern"
                return (~whole_matches(_words(look), column.pattern, path)).fill_null(False)
            case "not_unique":
                return look.cells.is_not_null() & ~look.cells.is_first_distinct()
            case "forbidden_missing":
                return look.cells.is_null()
            case _:
                raise KeyError(kind)


def _ends(column: Column) -> tuple[float, float]:
    """Bounds of the valid numbers, infinite where unconstrained."""
    return (-math.inf, math.inf) if column.range == "any" else column.range


def _words(look: ColumnView) -> pl.Series:
    """Cells as words, the same from a file as from typed values: an integer without `.0`, a date as
    2024-01-31, with its time unless midnight. Cells that do not parse are unchanged."""
    words = to_labels(look.values)
    if look.values.dtype == pl.Datetime("us"):
        words = look.values.dt.strftime("%Y-%m-%d %H:%M:%S").str.replace(r" 00:00:00$", "")
    return words.fill_null(to_labels(look.cells)) if len(look.bad) else words


def _allowed(look: ColumnView, column: Column) -> pl.Series:
    """Allowed values in the form of `_words`."""
    words = to_labels(pl.Series(column.allowed, dtype=pl.String))
    if not look.values.dtype.is_numeric():
        return words
    return to_labels(words.cast(pl.Float64, strict=False)).fill_null(words)


def _against(data: ExaminedData, look: ColumnView, column: Column) -> Iterator[Finding]:
    path, name = f"data.columns.{as_key(look.name)}", repr(look.name)
    broken = broken_rows(look, column)
    for kind in broken.kinds:
        rows = broken[kind]
        if not rows.any():
            continue
        match kind:
            case "out_of_range":
                low, high = _ends(column)
                text = f"{name} is outside {low:g} to {high:g}: {_values(look.values, rows)}"
                yield _broken(data, look, rows, kind, text, f"{path}.range")
            case "unexpected_value":
                text = f"{name} has values that are not allowed: {_values(_words(look), rows)}"
                yield _broken(data, look, rows, kind, text, f"{path}.allowed")
            case "pattern_mismatch":
                text = f"{name} does not match {column.pattern!r}: {_values(_words(look), rows)}"
                yield _broken(data, look, rows, kind, text, f"{path}.pattern")
            case "not_unique":
                text = f"{name} repeats values: {_values(look.cells, rows)}"
                yield _broken(data, look, rows, kind, text, f"{path}.unique")
            case "forbidden_missing":
                text = f"{name} must not be missing, but is in {many(int(rows.sum()), 'row')}"
                yield _broken(data, look, rows, kind, text, f"{path}.nullable")
            case _:
                assert_never(kind)


def _broken(
    data: ExaminedData, look: ColumnView, rows: pl.Series, kind: SchemaKind, message: str, path: str
) -> Finding:
    fix = f"fix the rows, correct {path}, or choose an action in data.quality.actions"
    count = int(rows.sum())
    return Finding(kind, "error", message, count, data.places(rows), (look.name,), fix)


def _values(values: pl.Series, rows: pl.Series) -> str:
    chosen = values.filter(rows)
    if chosen.dtype.is_numeric():
        numbers = chosen.to_numpy()
        ends = [f"{numbers.min():g}", f"{numbers.max():g}"]
        return f"{many(len(chosen), 'value')}, {' to '.join(dict.fromkeys(ends))}"
    distinct = chosen.unique(maintain_order=True).to_list()
    return f"{quoted(distinct)} in {many(len(chosen), 'row')}"
