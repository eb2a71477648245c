"""The target column: its task and problems."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import polars as pl

from trainwright.contract.key_paths import as_key
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_labels, count_values
from trainwright.data.base.cleaned_cells import BOOLEANS, Cells
from trainwright.data.base.inputs import PartName
from trainwright.data.base.messages import nearest_option, quoted
from trainwright.data.base.parse_cells import to_labels, to_numbers
from trainwright.data.base.row_storage import RowStorage, slices_of
from trainwright.data.columns.class_target import LabelType
from trainwright.data.columns.column_kinds import (
    MOSTLY,
    ColumnType,
    infinite_problems,
    kind_problems,
)
from trainwright.data.columns.fit_target import label_type
from trainwright.data.columns.identifiers import find_origin
from trainwright.data.formats.file_format import is_untyped
from trainwright.data.sources.source_file import SourceFile

MOST_CLASSES_OF_NUMBERS = 20
"""A numeric target with more distinct values than this is a regression target."""

_FEWEST_FRACTIONS, _FEWEST_WHOLE, _FEWEST_AMOUNTS = 4, 5, 8
_FIRST_CLASSES = (-1, 0, 1)
_EVEN_CLASSES = 2
_CLASS_WORDS = frozenset({"class", "type", "code", "species", "category", "label", "cluster"})

_WITHOUT_LABELS = "if they have no label, write data.labels.empty: none"


@final
@dataclass(frozen=True, slots=True)
class TargetFacts:
    """The target. `kind` is `labels` for several columns that say yes or no, or one of labels,
    `numbers` also for several. `classes` maps each label of the training file to its row count,
    empty for numbers and tokens; `missing` counts rows dropped for a missing target; `written` is
    the original type of the labels; `targets` counts the targets or labels."""

    kind: Literal["classes", "numbers", "tokens", "labels"]
    classes: Mapping[str, int]
    distinct: int
    missing: int
    written: LabelType = "text"
    targets: int = 1

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "classes": dict(self.classes),
            "distinct": self.distinct,
            "missing": self.missing,
            **({"targets": self.targets} if self.targets > 1 else {}),
        }


@final
@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A target as defined by the contract and the training file, with its problems; `name` is that
    of its column."""

    section: TableData
    kind: Literal["classes", "numbers"]
    problems: list[Problem]
    written: LabelType
    name: str


def target_kind(
    section: TableData, cells: Cells, source: SourceFile
) -> tuple[Literal["classes", "numbers"], list[Problem]]:
    """Classification or regression, by the values, unless the contract types the column."""
    name = cells.name
    written = section.columns.get(name, Column())
    kind = "numeric" if written.unit and written.kind == "auto" else written.kind
    if kind in ("datetime", "text", "ignored") or cells.dtype == pl.Datetime("us"):
        found = kind if kind != "auto" else "datetime"
        return "classes", [
            Problem(
                "the target has an unsupported type",
                path=name,
                found=found,
                expected="classes or numbers",
                fix=f"set data.columns.{as_key(name)}.kind to categorical or numeric",
                place=source.place(),
            )
        ]
    present = cells.present
    if kind == "categorical" or section.order or not present:
        return "classes", []
    numbers = present - cells.not_numbers
    if kind == "numeric" or (numbers >= MOSTLY * present and _are_amounts(cells)):
        problem = Problem(
            "doubles do not tell the numbers of the target apart",
            path=name,
            found=f"whole numbers beyond 2**53, such as {to_labels(cells.first(1))[0]}",
            fix="subtract a constant from the column, or set its kind to categorical",
            place=source.place(),
        )
        is_long = cells.has_long_numbers and find_origin(cells) != 0
        return "numbers", [problem] * is_long
    return "classes", []


def _are_amounts(cells: Cells) -> bool:
    """Are the numbers quantities rather than classes? Classes are few, and mostly numbered from 0
    or 1 on, in numbers of rows of one order; quantities are fractions, begin anywhere, or have
    frequent and rare values. A name that ends in class, type, code or species means classes."""
    rows: Counter[float] = Counter()
    if cells.has_long_numbers and cells.distinct > MOST_CLASSES_OF_NUMBERS:
        return True
    for one in cells.slices():
        counts = count_values(to_numbers(one).series.drop_nulls())
        rows.update(dict(counts.iter_rows()))
        if len(rows) > MOST_CLASSES_OF_NUMBERS:
            return True
    *_, last = ("", *re.findall("[A-Za-z]+", cells.name.lower()))
    if last in _CLASS_WORDS or len(rows) < _FEWEST_FRACTIONS:
        return False
    if any(value % 1 for value in rows):
        return True
    if len(rows) >= _FEWEST_WHOLE and min(rows) not in _FIRST_CLASSES:
        return True
    is_even = max(rows.values()) <= _EVEN_CLASSES * min(rows.values())
    rarely_repeat = 2 * len(rows) > cells.present
    return len(rows) >= _FEWEST_AMOUNTS and (rarely_repeat or not is_even)


def typed_target(
    target: TargetColumn, cells: pl.Series, source: SourceFile
) -> tuple[pl.Series, list[Problem]]:
    """Target as labels or numbers; a missing target stays null."""
    problems: list[Problem] = []
    if target.kind == "numbers":
        unreadable = target.section.columns.get(target.name, Column()).unreadable
        column = ColumnType(target.name, "numeric", "", 0, 0, "", unreadable=unreadable)
        series, found = kind_problems(cells, column, source)
        problems += [replace(one, kind="unreadable_target") for one in found]
        if unreadable == "missing":
            cells = series
    else:
        series = to_labels(cells)
        if cells.dtype.is_float():
            problems += infinite_problems(cells.cast(pl.Float64), source)
        if cells.dtype.is_nested():
            return series, [*problems, _nested(target, cells, source)]
    if target.section.labels.empty == "none":
        series = cells = series.fill_null("")
    rows = cells.is_null().arg_true().cast(pl.Int64).to_numpy()
    if len(rows) == len(cells) > 0:
        problems.append(
            Problem(
                "the target is missing in every row",
                path=target.name,
                found=f"no value in {many(len(rows), 'row')}",
                expected="a value to learn in every row",
                fix="name another column in data.target, or check data.missing_values",
                place=source.place(),
            )
        )
    elif len(rows) and target.section.missing_target == "fail":
        problems.append(
            Problem(
                f"the target is missing in {len(rows)} of {len(cells)} rows",
                path=target.name,
                found=source.rows_text(rows),
                expected="a value to learn in every row",
                fix="repair the rows, or leave them out with data.missing_target: drop"
                + ("; " + _WITHOUT_LABELS if target.section.labels.separator else ""),
                place=source.place(int(rows[0])),
            )
        )
    return series, problems


def _nested(target: TargetColumn, cells: pl.Series, source: SourceFile) -> Problem:
    return Problem(
        "the target is a list or an object in each row",
        path=target.name,
        found=str(cells.dtype)[:80],
        fix="set data.reading.nested to text, or write the class in a column of its own",
        place=source.place(),
    )


def class_problems(
    target: TargetColumn,
    frames: Mapping[PartName, pl.DataFrame],
    sources: Mapping[PartName, SourceFile],
) -> list[Problem]:
    """Problems of a constant target, and of classes unseen in training."""
    name = target.name
    known = _different(frames["train"][name])
    problems: list[Problem] = []
    if len(known) == 1:
        problems.append(
            Problem(
                "the target has the same value in every row",
                path=name,
                found=repr(known[0]),
                expected="at least two classes, or numbers that differ",
                fix="name another column in data.target, or add rows of other classes",
                place=sources["train"].place(),
            )
        )
    for part, frame in frames.items():
        if part == "train" or target.kind == "numbers" or not len(known):
            continue
        series = frame[name]
        rows = (series.is_not_null() & ~series.is_in(known.implode())).arg_true()
        if len(rows):
            problems.append(
                _unknown_class(
                    target, series.gather(rows), rows, known.sort().to_list(), part, sources[part]
                )
            )
    return problems


def _unknown_class(
    target: TargetColumn,
    series: pl.Series,
    rows: pl.Series,
    known: list[str],
    part: PartName,
    source: SourceFile,
) -> Problem:
    labels = series.unique().sort().to_list()
    meant = {BOOLEANS[label]: label for label in known if label in BOOLEANS}
    pairs = ", ".join(
        f'"{label}": "{meant.get(BOOLEANS.get(label, "")) or nearest_option(label, known) or "?"}"'
        for label in labels[:4]
    )
    positions = rows.cast(pl.Int64).to_numpy()
    return Problem(
        f"the {part} file has classes unseen in the training file",
        path=target.name,
        found=f"{quoted(labels)} in {many(len(positions), 'row')}",
        expected=quoted(known, 10),
        fix=f"if they are other spellings, data.columns.{as_key(target.name)}.values: {{{pairs}}}",
        place=source.place(int(positions[0])),
    )


def _different(series: pl.Series) -> pl.Series:
    """Distinct present values; only a limited number of numeric ones."""
    found = series.head(0)
    for part in slices_of(series):
        found = pl.concat([found, part.drop_nulls().unique()]).unique()
        if series.dtype.is_numeric() and len(found) > MOST_CLASSES_OF_NUMBERS:
            break
    return found


def find_targets(
    section: TableData, cells: Sequence[Cells], source: SourceFile
) -> tuple[TargetColumn, ...]:
    """The targets of a section among the cells of the training file."""
    by_name = {one.name: one for one in cells}
    untyped = is_untyped(source.version.path)

    def target(name: str) -> TargetColumn:
        of_target = by_name[name]
        kind, found = target_kind(section, of_target, source)
        given = source.frame[name].dtype  # cleaned cells have words for booleans
        dtype = given if given == pl.Boolean else of_target.dtype
        return TargetColumn(section, kind, found, label_type(dtype, untyped=untyped), name)

    return tuple(map(target, section.target_columns))


def facts_of_target(
    targets: Sequence[TargetColumn], train: pl.DataFrame, dropped: int, space: RowStorage
) -> TargetFacts:
    """Facts of the target of the training rows, of which `dropped` were excluded for lack of it."""
    first = targets[0]
    if first.section.has_several_targets:
        return _several_facts(targets, train, dropped)
    series = train[first.name]
    counts = {} if first.kind == "numbers" else dict(sorted(count_labels(series).items()))
    distinct = Cells(series, space=space).distinct
    return TargetFacts(first.kind, counts, distinct, dropped, first.written)


def _several_facts(
    targets: Sequence[TargetColumn], train: pl.DataFrame, dropped: int
) -> TargetFacts:
    """Facts of several targets, or of labels in one column."""
    # Imported here: few tables have several targets.
    from trainwright.data.columns.label_set import label_lists, says_yes_or_no

    first, columns = targets[0], [train[one.name] for one in targets]
    most = max(one.n_unique() for one in columns)
    if separator := first.section.labels.separator:
        labels = label_lists(columns[0], separator).explode().drop_nulls()
        return TargetFacts("labels", {}, most, dropped, "text", labels.n_unique())
    kind: Literal["labels", "numbers", "classes"] = "classes"
    if all(says_yes_or_no(one.drop_nulls()).all() for one in columns):
        kind = "labels"
    elif all(map(_are_numbers, columns)):
        kind = "numbers"
    return TargetFacts(kind, {}, most, dropped, first.written, len(columns))


def _are_numbers(cells: pl.Series) -> bool:
    return cells.dtype.is_numeric() or to_numbers(cells).series.null_count() == cells.null_count()
