"""Cleaned cells to typed rows, a slice at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from trainwright.core.errors import Problem
from trainwright.data.base.column_reader import Cells
from trainwright.data.base.row_storage import RowStorage, bounds
from trainwright.data.columns.column_kinds import (
    ColumnType,
    as_typed,
    kind_problems,
    whole_problems,
)
from trainwright.data.columns.target_column import TargetColumn, typed_target
from trainwright.data.sources.data_source import SourceFile


def type_rows(
    cells: Sequence[Cells],
    columns: Sequence[ColumnType],
    target: TargetColumn,
    source: SourceFile,
    space: RowStorage,
) -> tuple[pl.DataFrame, list[Problem]]:
    """The columns of a file as their kinds say, in this order and the target behind them, and what
    is wrong with their values. A target that is missing stays missing."""
    by_name = {one.name: one for one in cells}
    wanted = [(column, by_name[column.name]) for column in columns if column.name in by_name]
    of_target = by_name[target.name]
    if of_target.in_memory:
        return _typed_at_once(wanted, of_target, target, source)
    typed = [(as_typed(column, one), one) for column, one in wanted]
    refused: set[str] = set()

    def rows() -> Iterator[pl.DataFrame]:
        for start, stop in bounds(len(of_target)):
            series: list[pl.Series] = []
            for column, one in typed:
                values, found = kind_problems(one.between(start, stop), column, source)
                series.append(values)
                refused.update([column.name] if found else [])
            answers, missing = typed_target(target, of_target.between(start, stop), source)
            refused.update([target.name] if missing else [])
            # Not with_columns: a file may hold nothing but its target.
            yield pl.DataFrame([*series, answers])

    frame = space.frame(rows())
    problems: list[Problem] = []
    for column, one in wanted:
        # Of all rows at once, so that one message names them; a column that is left out may hold
        # anything.
        if column.name in refused and column.kind != "ignored":
            problems += kind_problems(one.whole(), column, source)[1]
    if target.name in refused:
        problems += typed_target(target, of_target.whole(), source)[1]
    return frame, problems


def _typed_at_once(
    wanted: Sequence[tuple[ColumnType, Cells]],
    of_target: Cells,
    target: TargetColumn,
    source: SourceFile,
) -> tuple[pl.DataFrame, list[Problem]]:
    """`type_rows` in memory: column by column, of which only the typed cells stay there."""
    typed: list[pl.Series] = []
    problems: list[Problem] = []
    for column, one in wanted:
        values, found = whole_problems(one, as_typed(column, one), source)
        typed.append(values)
        # A column that is left out may hold anything.
        if found and column.kind != "ignored":
            problems += kind_problems(one.whole(), column, source)[1]
        one.let_go()
    answers, missing = typed_target(target, of_target.whole(), source)
    of_target.let_go()
    return pl.DataFrame([*typed, answers]), [*problems, *missing]
