"""Typed rows from cleaned cells, in chunks; columns and numbers unlike those of the training."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import FileSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.data.base.categories import Vocabulary
from trainwright.data.base.cleaned_cells import Cells, Cleaning, unchanged
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import nearest_option, some
from trainwright.data.base.row_storage import RowStorage, bounds, chosen_positions, taken
from trainwright.data.columns.column_kinds import (
    ColumnType,
    as_typed,
    kind_problems,
    whole_problems,
)
from trainwright.data.columns.target_column import TargetColumn, typed_target
from trainwright.data.sources.source_file import SourceFile

_FEWEST_EXPECTED = 20
"""Values that rows must be expected to have before they are judged."""


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


def rows_with_targets(
    targets: pl.DataFrame, space: RowStorage, clean: Callable[[pl.Series], pl.Series] = unchanged
) -> Integers:
    """Rows [N] without a missing target, after `clean`."""

    def there(start: int, stop: int) -> npt.NDArray[np.bool_]:
        rows = targets.slice(start, stop - start)
        has_all: npt.NDArray[np.bool_] = np.logical_and.reduce(
            [clean(one).is_not_null().to_numpy() for one in rows]
        )
        return has_all

    return chosen_positions(targets.height, there, space)


def with_answers(
    section: TableData, sources: Mapping[PartName, SourceFile], space: RowStorage
) -> dict[PartName, SourceFile]:
    """The files without the rows that lack a target and are to be dropped: types are inferred from
    the others. A split file names them too, so they stay until it was read."""
    found = dict(sources)
    is_named = isinstance(section.split, FileSplit)
    if section.missing_target == "fail" or section.labels.empty == "none" or is_named:
        return found
    clean = Cleaning.of(section).cells
    for part, source in sources.items():
        kept = rows_with_targets(source.frame.select(section.target_columns), space, clean)
        if 0 < len(kept) < source.frame.height:
            frame = space.frame(taken(source.frame, kept))
            found[part] = replace(source, frame=frame, kept=kept)
    return found


def allow_words(column: str) -> str:
    """What accepts new rows most of which have no known value in a column."""
    return f"--allow-unknown {shlex.quote(column)}, in Python predictor.allow_unknown({column!r})"


def missing_column(column: ColumnType, names: list[str], file: SourceFile) -> Problem:
    """The rows of a file lack a feature column."""
    near, allowed = nearest_option(column.name, names), f" ({allow_words(column.name)})"
    return Problem(
        f"there is no column {column.name!r}, which the model was trained on",
        path=column.name,
        found=f"columns {some(names, 8)}",
        expected=f"a {column.kind} column, for example {column.example!r}",
        fix=f"rename {near!r}" if near else f"add the column, empty where it is not known{allowed}",
        place=file.place(),
    )


def share_filled(
    frame: pl.DataFrame, columns: Sequence[ColumnType], vocabularies: Sequence[Vocabulary] = ()
) -> dict[str, float]:
    """Share of the training rows with a value in each column. A category may be of one row, to
    which no other row would have made it known."""
    labels = {one.name: len(one.kept) + len(one.rare) for one in vocabularies}
    shares = {}
    for column in columns:
        lacking = frame[column.name].null_count() + labels.get(column.name, 0)
        shares[column.name] = max(0.0, 1 - lacking / frame.height)
    return shares


def check_known(
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
        if share * rows < _FEWEST_EXPECTED:
            continue
        empty = series.null_count()
        unknown = by_name[name].count_unseen(series) if name in by_name else 0
        if rows - empty - unknown >= share * rows / 2:
            continue
        counts = f"{empty:,} of {rows:,} rows empty"
        counts += f", {unknown:,} with categories that no training row has" * bool(unknown)
        problems.append(
            Problem(
                "the column is empty or unknown in most rows",
                path=name,
                found=f"{counts}, in {source}",
                expected=f"known values in about {share:.0%} of the rows, as in training",
                fix=f"repair the column, or allow it: {allow_words(name)}",
            )
        )
    if problems:
        raise DataMistake(problems)


_NO_END = "none"


@final
@dataclass(frozen=True, slots=True)
class Limit:
    """Limits of one numeric column and the treatment beyond them, applied to every encoded row, so
    that a model never sees values outside its training range. An infinite bound is absent; in JSON
    it is `none`."""

    column: str
    low: float
    high: float
    beyond: Literal["cap", "impute"]

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "column": self.column,
            "low": self.low if math.isfinite(self.low) else _NO_END,
            "high": self.high if math.isfinite(self.high) else _NO_END,
            "beyond": self.beyond,
        }

    @classmethod
    def from_json(cls, value: Json) -> Limit:
        """The limit that `to_json` wrote."""
        low = -math.inf if value["low"] == _NO_END else value["low"]
        high = math.inf if value["high"] == _NO_END else value["high"]
        return cls(value["column"], low, high, value["beyond"])

    def __str__(self) -> str:
        """The limited values: `above 9`, `below 0`, `outside 0 to 9`."""
        if math.isinf(self.low):
            return f"above {self.high:g}"
        return (
            f"below {self.low:g}"
            if math.isinf(self.high)
            else f"outside {self.low:g} to {self.high:g}"
        )


def limited(frame: pl.DataFrame, limits: Sequence[Limit]) -> pl.DataFrame:
    """Rows with every limit applied; a frame may lack columns."""
    for limit in limits:
        if limit.column not in frame.columns:
            continue
        values = pl.col(limit.column)
        if limit.beyond == "cap":
            changed = values.clip(limit.low, limit.high)
        else:
            changed = pl.when(values.is_between(limit.low, limit.high)).then(values)
        frame = frame.with_columns(changed.alias(limit.column))
    return frame
