"""Typed rows from cleaned cells, in chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from trainwright.core.errors import Problem
from trainwright.data.base.cells.cleaned_cells import Cells
from trainwright.data.base.storage.row_storage import RowStorage, bounds
from trainwright.data.columns.column_kinds import (
    ColumnType,
    as_typed,
    kind_problems,
    whole_problems,
)
from trainwright.data.columns.target_column import TargetColumn, typed_target
from trainwright.data.sources.source_file import SourceFile


def type_rows(
    cells: Sequence[Cells],
    columns: Sequence[ColumnType],
    targets: Sequence[TargetColumn],
    source: SourceFile,
    space: RowStorage,
) -> tuple[pl.DataFrame, list[Problem]]:
    """Columns of a file typed by their kinds, in this order with the targets last, and the problems
    of their values. A missing target stays missing."""
    by_name = {one.name: one for one in cells}
    wanted = [(column, by_name[column.name]) for column in columns if column.name in by_name]
    of_targets = [(one, by_name[one.name]) for one in targets]
    if all(known.in_memory for _, known in of_targets):
        return _typed_at_once(wanted, of_targets, source)
    typed = [(as_typed(column, one), one) for column, one in wanted]
    refused: set[str] = set()

    def rows() -> Iterator[pl.DataFrame]:
        for start, stop in bounds(len(of_targets[0][1])):
            series: list[pl.Series] = []
            for column, one in typed:
                values, found = kind_problems(one.between(start, stop), column, source)
                series.append(values)
                refused.update([column.name] if found else [])
            for target, one in of_targets:
                answers, missing = typed_target(target, one.between(start, stop), source)
                series.append(answers)
                refused.update([target.name] if missing else [])
            # Not with_columns: a file may hold only its target.
            yield pl.DataFrame(series)

    frame = space.frame(rows())
    problems: list[Problem] = []
    for column, one in wanted:
        # Over all rows, for one message; an excluded column may hold anything.
        if column.name in refused and column.kind != "ignored":
            problems += kind_problems(one.whole(), column, source)[1]
    for target, one in of_targets:
        if target.name in refused:
            problems += typed_target(target, one.whole(), source)[1]
    return frame, problems


def _typed_at_once(
    wanted: Sequence[tuple[ColumnType, Cells]],
    of_targets: Sequence[tuple[TargetColumn, Cells]],
    source: SourceFile,
) -> tuple[pl.DataFrame, list[Problem]]:
    """`type_rows` in memory, by column; only the typed cells are kept."""
    typed: list[pl.Series] = []
    problems: list[Problem] = []
    for column, one in wanted:
        values, found = whole_problems(one, as_typed(column, one), source)
        typed.append(values)
        # An excluded column may hold anything.
        if found and column.kind != "ignored":
            problems += kind_problems(one.whole(), column, source)[1]
        one.let_go()
    for target, one in of_targets:
        answers, missing = typed_target(target, one.whole(), source)
        typed.append(answers)
        problems += missing
        one.let_go()
    return pl.DataFrame(typed), problems
