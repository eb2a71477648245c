"""Resolve ambiguous columns of a section, as `init` would write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import polars as pl

from trainwright.contract.sections.data.column import Column
from trainwright.contract.sections.data.split import TimeSplit, split_columns
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.base.cells.cleaned_cells import Cells, Cleaning
from trainwright.data.base.cells.parse_cells import LARGEST, to_labels, to_numbers
from trainwright.data.base.messages import quoted
from trainwright.data.base.storage.row_storage import RowStorage
from trainwright.data.columns.doubtful_classes import find_class_spellings
from trainwright.data.columns.doubts import Doubt, find_doubt
from trainwright.data.formats.file_format import known_format
from trainwright.data.sources.source_file import SourceFile

_FEWEST_VALUES = 2


@final
@dataclass(frozen=True, slots=True)
class Proposed:
    """A section without ambiguous columns, and the resolved doubts."""

    section: TableData
    doubts: tuple[Doubt, ...] = ()
    cells: Mapping[str, Cells] = field(default_factory=dict)
    """Types of the training columns that were examined and unambiguous."""

    @property
    def reads_anew(self) -> bool:
        """Must the files be read again with other settings?"""
        return any(doubt.numbers and not doubt.settings.unit for doubt in self.doubts)


def decide_columns(section: TableData, source: SourceFile, space: RowStorage) -> Proposed:
    """Decide the columns that the contract does not set and the training file leaves ambiguous. The
    contract's settings are kept."""
    cleaning = Cleaning.of(section)
    found = []
    clear: dict[str, Cells] = {}
    for series in source.frame.get_columns():
        if not _is_open(section, series.name):
            continue
        cells = Cells(series, cleaning.cells, space)
        doubt = find_doubt(cells)
        if doubt is None or not _applies(doubt, section, source):
            doubt = find_class_spellings(cells) if series.name in section.target_columns else None
        if doubt is None:
            # Counted while the cells are in memory: they are built once.
            clear[series.name] = cells.counted()
        else:
            found.append(doubt)
    return Proposed(with_doubts(section, found), tuple(found), clear)


def decide_problems(
    section: TableData,
    problems: Sequence[Problem],
    cells: Sequence[Cells],
    doubts: Sequence[Doubt],
) -> tuple[Doubt, ...]:
    """Doubts that only typed rows show: infinite numbers, which become missing, and a table without
    an evident feature, where possible features are kept even if a doubt has excluded them."""
    excluded = {doubt.column for doubt in doubts if doubt.settings.kind == "ignored"}
    by_name = {
        one.name: one for one in cells if _is_open(section, one.name) or one.name in excluded
    }
    for name in section.target_columns:
        by_name.pop(name, None)
    if any(problem.kind == "no_feature" for problem in problems):
        found = (_only_feature(one) for one in by_name.values())
        return tuple(doubt for doubt in found if doubt is not None)
    named = [problem.path for problem in problems if problem.kind == "infinite"]
    return tuple(_infinite(by_name[name]) for name in named if name in by_name)


def _infinite(cells: Cells) -> Doubt:
    spellings: list[str] = []
    for one in cells.slices():
        large = to_numbers(one).series.abs() > LARGEST
        spellings += to_labels(one.filter(large)).unique().to_list()
    values = dict.fromkeys(sorted(set(spellings)), "")
    reason = f"{quoted(values)} are infinite or too large, and become missing"
    return Doubt(cells.name, Column(kind="numeric", values=values), reason)


def _only_feature(cells: Cells) -> Doubt | None:
    """Doubt for a column that would be excluded, but is the only one."""
    if cells.is_nested or cells.dtype == pl.Datetime("us") or cells.distinct < _FEWEST_VALUES:
        return None
    if not cells.not_numbers:
        reason = "numbers like an identifier, but there is no other column"
        return Doubt(cells.name, Column(kind="numeric"), reason)
    reason = "text that hardly repeats, and there is no other column"
    return Doubt(cells.name, Column(kind="text"), reason)


def with_doubts(section: TableData, doubts: Sequence[Doubt]) -> TableData:
    """The section with the proposals applied."""
    if not doubts:
        return section
    columns = {**section.columns, **{doubt.column: doubt.settings for doubt in doubts}}
    numbers = {doubt.column: doubt.numbers for doubt in doubts if doubt.numbers}
    reading = section.reading.model_copy(update={"numbers": {**section.reading.numbers, **numbers}})
    return section.model_copy(update={"columns": columns, "reading": reading})


def said(settings: Column) -> dict[str, Json]:
    """Settings of a proposal that differ from the defaults."""
    return dict(settings.model_dump(mode="json", exclude_defaults=True))


def _is_open(section: TableData, name: str) -> bool:
    keys = () if isinstance(section.split, TimeSplit) else split_columns(section.split)
    written = section.columns.get(name, Column())
    return (
        written.kind == "auto"
        and written.format == "auto"
        and not written.unit
        and not written.values
        and written.unreadable == "refuse"
        and not written.allowed
        and name not in (section.weight, *section.exclude)
        and name not in section.reading.numbers
        and name not in {key for _, key in keys}
    )


def _applies(doubt: Doubt, section: TableData, source: SourceFile) -> bool:
    in_files = all(known_format(file.path) for file in source.files)
    if doubt.numbers and not in_files:
        return False
    if doubt.column not in section.target_columns:
        return True
    # Target classes are final; target numbers may have a unit or commas.
    return bool(doubt.settings.unit or doubt.numbers)
