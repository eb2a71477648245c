"""How filled the columns of new rows are, against the training rows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import polars as pl

from trainwright.core.errors import Problem
from trainwright.data.base.categories import Vocabulary
from trainwright.data.columns.column_kinds import ColumnType

_FEWEST = 20
"""Values that rows must be expected to have before they are judged."""


def share_filled(
    frame: pl.DataFrame, columns: Sequence[ColumnType], vocabularies: Sequence[Vocabulary] = ()
) -> dict[str, float]:
    """Share of the training rows with a value in each column. A category may be of one row, to
    which no other row would have made it known."""
    labels = {one.name: len(one.kept) + len(one.rare) for one in vocabularies}
    names = [column.name for column in columns]
    lacking = [frame[name].null_count() + labels.get(name, 0) for name in names]
    return {
        name: max(0.0, 1 - count / frame.height) for name, count in zip(names, lacking, strict=True)
    }


def compare_filled(
    filled: Mapping[str, float],
    typed: Sequence[pl.Series],
    vocabularies: Sequence[Vocabulary],
    source: str,
) -> list[Problem]:
    """Problems of columns with a known value in fewer than half of the rows that should have one,
    by the shares that `share_filled` gave."""
    by_name = {vocabulary.name: vocabulary for vocabulary in vocabularies}
    problems = []
    for series in typed:
        name, rows = series.name, len(series)
        share = filled.get(name, 0.0)
        if share * rows < _FEWEST:
            continue
        empty = series.null_count()
        unknown = by_name[name].count_unseen(series) if name in by_name else 0
        if rows - empty - unknown >= share * rows / 2:
            continue
        unseen = f", {unknown:,} with categories that no training row has" * bool(unknown)
        problems.append(
            Problem(
                "the column is empty or unknown in most rows",
                path=name,
                found=f"{empty:,} of {rows:,} rows empty{unseen}, in {source}",
                expected=f"known values in about {share:.0%} of the rows, as in training",
                fix=f"repair the column, or allow it: --allow-unknown {shlex.quote(name)}, in "
                f"Python predictor.allow_unknown({name!r})",
            )
        )
    return problems
