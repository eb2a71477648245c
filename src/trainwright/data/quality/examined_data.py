"""Rows for the checks: columns typed as far as their values allow, and settings of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import TimeSplit, split_columns
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.data.base.categories import count_values
from trainwright.data.base.cleaned_cells import Cells, Cleaning
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.parse_cells import LARGEST, to_labels, to_numbers
from trainwright.data.columns.column_kinds import ColumnType, as_typed, best_typed, infer_column
from trainwright.data.columns.doubtful_dates import find_dates
from trainwright.data.quality.finding import row_numbers_of
from trainwright.data.sources.source_file import FileVersion, SourceFile


def key_columns(section: TableData) -> tuple[str, ...]:
    """Columns used only to split, the group or part column but not the time column, and that of the
    weights."""
    weight = (section.weight,) if section.weight else ()
    if isinstance(section.split, TimeSplit):
        return weight
    return (*weight, *(name for _, name in split_columns(section.split)))


def column_settings_of(section: TableData, typed: pl.DataFrame) -> dict[str, Column]:
    """Column settings with the target fixed as classes where it is, even if the labels are
    numeric."""
    columns = dict(section.columns)
    for name in section.target_columns:
        if name not in typed.columns or typed[name].dtype != pl.String:
            continue
        said = columns.get(name, Column())
        columns[name] = said.model_copy(update={"kind": "categorical"})
    return columns


def examined_target(section: TableData) -> str:
    """The target that the checks see: of several the first, of labels in one column none, since
    their combinations are no classes."""
    return "" if section.labels.separator else section.target_columns[0]


def other_targets(section: TableData, target: str = "") -> tuple[str, ...]:
    """Targets that are no features either, beside the one that the checks see."""
    seen = target or examined_target(section)
    return tuple(name for name in section.target_columns if name != seen)


Task = Literal["classes", "numbers", "none"]
LookKind = Literal["numeric", "categorical", "text", "datetime", "nested", "empty"]

HOURS = frozenset({"hr", "hour", "hours"})
"""Names of columns that hold the hour of a date in another column."""

DEFAULT_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
_WORDS_OF_A_TEXT = 4
_DISTINCT_TEXTS = 0.3
_FEWEST_TO_JUDGE = 20
_MANY_WORDS = ("identifier", "values rarely", "free text")
_MOST_CLASSES_OF_NUMBERS = 20


@final
@dataclass(frozen=True, slots=True)
class ColumnView:
    """One column. `cells` are cleaned and untyped, `values` typed: Float64, Datetime, or String;
    `bad` are the rows whose cell does not parse. `reason` is why the column would not be a feature
    by default (an identifier, a constant), empty otherwise."""

    name: str
    kind: LookKind
    cells: pl.Series
    values: pl.Series
    bad: Integers
    reason: str

    @property
    def numbers(self) -> Floats:
        """Values of a numeric column, float64 [N], NaN for missing."""
        return self.values.cast(pl.Float64).fill_null(np.nan).to_numpy()


@final
@dataclass(frozen=True, slots=True)
class ExaminedData:
    """N examined rows. `raw` holds the cells unchanged; `looks` are all columns, the target
    included; `target` is its name, empty if unknown; `parts` int64 [N] is the part of each row (0
    training, 1 validation, 2 test; all 0 before the split); `rows` int64 [N] is its position in the
    data; `left_out` are columns that the contract excludes from the features."""

    raw: pl.DataFrame
    looks: tuple[ColumnView, ...]
    target: str
    task: Task
    parts: Integers
    rows: Integers
    left_out: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def features(self) -> tuple[ColumnView, ...]:
        """Columns other than the target and the excluded ones."""
        return tuple(
            look
            for look in self.looks
            if look.name != self.target and look.name not in self.left_out
        )

    @property
    def telling(self) -> tuple[ColumnView, ...]:
        """Informative features: no identifiers, constants or nested values."""
        return tuple(
            look
            for look in self.features
            if look.kind not in ("nested", "empty")
            and not look.reason.startswith(("identifier", "constant"))
        )

    def of_kind(self, *kinds: LookKind) -> tuple[ColumnView, ...]:
        """Features of these kinds."""
        return tuple(look for look in self.features if look.kind in kinds)

    @property
    def labels(self) -> pl.Series:
        """The target as String labels."""
        return to_labels(self.of_name(self.target).cells)

    @property
    def answers(self) -> Floats:
        """The target as numbers, NaN for missing."""
        return self.of_name(self.target).numbers

    def of_name(self, name: str) -> ColumnView:
        """The column of this name."""
        return next(look for look in self.looks if look.name == name)

    def places(self, chosen: pl.Series | Integers | Iterable[int]) -> tuple[int, ...]:
        """Positions in the data of rows of this frame."""
        return row_numbers_of(self.rows[np.asarray(row_numbers_of(chosen), dtype=np.int64)])

    def take(self, chosen: Integers) -> ExaminedData:
        """Only these rows, in this order."""
        looks = tuple(
            replace(
                look,
                cells=look.cells.gather(chosen),
                values=look.values.gather(chosen),
                bad=np.flatnonzero(np.isin(chosen, look.bad)),
            )
            for look in self.looks
        )
        return replace(
            self,
            raw=self.raw[chosen],
            looks=looks,
            parts=self.parts[chosen],
            rows=self.rows[chosen],
        )


def examine(
    frame: pl.DataFrame,
    target: str = "",
    columns: Mapping[str, Column] | None = None,
    cleaning: Cleaning | None = None,
    left_out: Iterable[str] = (),
) -> ExaminedData:
    """Examine raw rows. `columns` are the contract's column settings."""
    cleaning = Cleaning(DEFAULT_MISSING, {}) if cleaning is None else cleaning
    written = {} if columns is None else columns
    cells = cleaning.frame(frame) if frame.width else frame
    looks = tuple(_look(series, written.get(series.name, Column())) for series in cells)
    ignored = [name for name, column in written.items() if column.kind == "ignored"]
    looks = tuple(_as_target(look) if look.name == target else look for look in looks)
    return ExaminedData(
        raw=frame,
        looks=looks,
        target=target,
        task=_task(looks, target, written.get(target, Column())),
        parts=np.zeros(frame.height, dtype=np.int64),
        rows=np.arange(frame.height),
        left_out=frozenset({*left_out, *ignored} - {target}),
    )


def together(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate the rows of several files; an absent column is missing."""
    return pl.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]


def are_numbers(cells: Cells, written: Column) -> bool:
    """Does `examine` read these cleaned cells, which need not fit into memory, as numbers?"""
    if written.kind == "text":
        return False
    return as_typed(_inferred(cells, written), cells).kind == "numeric"


def _inferred(cells: Cells, written: Column) -> ColumnType:
    nowhere = SourceFile(pl.DataFrame(), FileVersion("", "", 0, 0), np.empty(0, dtype=np.int64))
    return infer_column(cells, written, "", nowhere).type


def _look(cells: pl.Series, written: Column) -> ColumnView:
    if not len(cells) - cells.null_count():
        return ColumnView(cells.name, "empty", cells, cells, _none(), "")
    if written.kind == "text":
        return ColumnView(cells.name, "text", cells, to_labels(cells), _none(), "")
    column = _inferred(Cells(cells), written)
    reason = column.reason if column.kind == "ignored" else ""
    if cells.dtype.is_nested() or cells.dtype in (pl.Binary, pl.Object):
        return ColumnView(cells.name, "nested", cells, cells, _none(), "")
    match column.kind:
        case "numeric":
            return numeric_look(cells, reason, column.origin)
        case "categorical":
            values = to_labels(cells)
            return ColumnView(cells.name, _kind_of(values), cells, values, _none(), reason)
        case "datetime" | "ignored" | "text":
            form = column.format or _date_form(cells, reason)
            reason = "" if form else reason
            values = best_typed(cells, form)
            if values.dtype.is_numeric():
                return numeric_look(cells, reason)
            bad = (cells.is_not_null() & values.is_null()).arg_true().cast(pl.Int64).to_numpy()
            return ColumnView(cells.name, _kind_of(values), cells, values, bad, reason)
        case _:
            assert_never(column.kind)


def _date_form(cells: pl.Series, reason: str) -> str:
    """Date formats of a column read as text because of mixed formats or impossible days; empty if
    it has none."""
    if cells.dtype != pl.String or not reason.startswith(_MANY_WORDS):
        return ""
    counts = count_values(cells.drop_nulls())
    dates = find_dates(cells.name, counts["value"], counts["count"])
    return dates.form if dates else ""


def numeric_look(cells: pl.Series, reason: str = "", origin: int = 0) -> ColumnView:
    """A numeric column, counted from `origin`; values infinite or beyond 32-bit floats are missing,
    as in training."""
    reading = to_numbers(cells, origin)
    beyond = (reading.series.abs() > LARGEST).fill_null(False)
    bad = np.union1d(reading.bad, beyond.arg_true().to_numpy()).astype(np.int64)
    return ColumnView(cells.name, "numeric", cells, reading.series.set(beyond, None), bad, reason)


def _kind_of(values: pl.Series) -> LookKind:
    if values.dtype == pl.Datetime("us"):
        return "datetime"
    present = values.drop_nulls()
    if len(present) < _FEWEST_TO_JUDGE or present.n_unique() < _DISTINCT_TEXTS * len(present):
        return "categorical"
    words = present.head(1000).str.count_matches(r"\S+").to_numpy()
    return "text" if float(words.mean()) >= _WORDS_OF_A_TEXT else "categorical"


def _as_target(look: ColumnView) -> ColumnView:
    """A target is never an identifier. A text that repeats is a class."""
    present = look.values.drop_nulls()
    if look.kind == "text" and present.n_unique() > len(present) / 2:
        return replace(look, reason="")
    kind: LookKind = "categorical" if look.kind == "text" else look.kind
    return replace(look, kind=kind, reason="")


def _task(looks: Sequence[ColumnView], target: str, written: Column) -> Task:
    chosen = [look for look in looks if look.name == target]
    if not chosen or chosen[0].kind in ("empty", "nested", "datetime", "text"):
        return "none"
    if written.kind == "categorical" or chosen[0].kind != "numeric":
        return "classes"
    many = chosen[0].values.drop_nulls().n_unique() > _MOST_CLASSES_OF_NUMBERS
    return "numbers" if written.kind == "numeric" or many else "classes"


def _none() -> Integers:
    return np.empty(0, dtype=np.int64)
