"""How filled the columns of new rows are, against the training rows."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

import polars as pl

from trainwright.core.errors import DataMistake, Problem
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
    shares = (max(0.0, 1 - count / frame.height) for count in lacking)
    return dict(zip(names, shares, strict=True))


def check_filled(
    filled: Mapping[str, float],
    typed: Sequence[pl.Series],
    vocabularies: Sequence[Vocabulary],
    source: str,
) -> None:
    """Check that at least half of the rows that should have a known value by `filled`, as
    `share_filled` gave it, have one in each column.

    Raises:
        DataMistake: they have not.
    """
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
        counts = f"{empty:,} of {rows:,} rows empty"
        counts += f", {unknown:,} with categories that no training row has" * bool(unknown)
        allow = f"--allow-unknown {shlex.quote(name)}, in Python predictor.allow_unknown({name!r})"
        problems.append(
            Problem(
                "the column is empty or unknown in most rows",
                path=name,
                found=f"{counts}, in {source}",
                expected=f"known values in about {share:.0%} of the rows, as in training",
                fix=f"repair the column, or allow it: {allow}",
            )
        )
    if problems:
        raise DataMistake(problems)
