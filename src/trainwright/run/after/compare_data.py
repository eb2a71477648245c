"""`data diff`: compare two versions of data, each that of a run or of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.resumable_fields import differences
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import damage_in, read_json
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.parse_cells import to_labels, to_numbers
from trainwright.data.base.typed_fields import check_annotated
from trainwright.data.columns.column_kinds import ColumnType, best_typed, type_column
from trainwright.data.sources.find_source import read_source
from trainwright.data.versions.data_difference import Difference, differ
from trainwright.data.versions.snapshot import DataSnapshot, read_snapshot, take_snapshot
from trainwright.run.after.evaluate_rows import reading_of
from trainwright.run.folder.planned_contract import find_run, read_planned
from trainwright.tracking.run_folder import RunFolder


def difference(a: str, b: str, runs: Path, key: str = "") -> Difference:
    """Changes from A to B. Each is a run, by name or folder, or a data file; a file compared with a
    run is typed like the run's data. `key` names the column that identifies the rows of files.

    Raises:
        Mistake: neither a run nor a file, an unreadable file, or a missing column.
    """
    folders = {name: _runs(name, runs) for name in (a, b)}
    typing = [_Typing.of(folder) for found in folders.values() for folder in found]
    known = typing[0] if typing else _Typing({}, "", Cleaning.of(TableData()), "", USUAL)
    if typing:
        key = key or known.key
    sides = [
        read_snapshot(folders[name][0].data, name)
        if folders[name]
        else known.snapshot(Path(name), key)
        for name in (a, b)
    ]
    found = differ(sides[0], sides[1])
    sections = [read_planned(folder).data for each in folders.values() for folder in each]
    if len(sections) < len(sides):
        return found
    before, after = (section.model_dump(mode="json") for section in sections)
    return replace(found, settings=tuple(differences(before, after, "data")))


@final
@dataclass(frozen=True, slots=True)
class _Typing:
    """How a run's data was read and typed: columns, target and cleaning, and the row key."""

    columns: Mapping[str, ColumnType]
    target: str
    cleaning: Cleaning
    key: str
    reading: Reading

    @classmethod
    def of(cls, folder: RunFolder) -> _Typing:
        """Typing of a run on a table."""
        contract = read_planned(folder)
        section = contract.data
        if not section.is_comparable:
            raise Mistake(
                Problem(
                    f"run {folder.name} was on {section.kind}, which have no columns",
                    expected="a run on a table",
                    fix="compare the versions in data/manifest.json",
                )
            )
        section = TableData.of(section)
        manifest = folder.data / "manifest.json"
        with damage_in(manifest):
            listed = read_json(manifest)["facts"]["columns"]
            columns = [ColumnType.from_json(one) for one in listed]
            for column in columns:
                check_annotated(column, "columns")
        key = read_snapshot(folder.data, folder.name).key
        by_name = {one.name: one for one in columns}
        reading = reading_of(contract, ())
        return cls(by_name, section.target_columns[0], Cleaning.of(section), key, reading)

    def snapshot(self, file: Path, key: str) -> DataSnapshot:
        """Snapshot of a file, its columns typed as in the run where the run had them."""
        absolute = file.absolute()
        frame = read_source(absolute.name, absolute.parent, "DATA", self.reading).frame
        if key and key not in frame.columns:
            raise Mistake(
                Problem(
                    f"{file} has no column {key!r}",
                    found=", ".join(frame.columns[:8]),
                    fix="name the column that identifies rows: --key COLUMN",
                )
            )
        typed = pl.DataFrame([self._typed(series) for series in frame.get_columns()])
        if key and typed[key].n_unique() < typed.height:
            raise Mistake(
                Problem(
                    f"{key!r} does not identify the rows of {file}",
                    found=f"{typed[key].n_unique():,} values in {typed.height:,} rows",
                    expected="a different value in every row",
                    fix="name another column: --key COLUMN",
                )
            )
        return take_snapshot([typed], str(file), self.target, key)

    def _typed(self, series: pl.Series) -> pl.Series:
        cells = self.cleaning.cells(series)
        if series.name in self.columns:
            return type_column(cells, self.columns[series.name])[0]
        if series.name == self.target:
            numbers = to_numbers(cells)
            return to_labels(cells) if len(numbers.bad) else numbers.series
        return best_typed(cells)


def _runs(name: str, runs: Path) -> tuple[RunFolder, ...]:
    """The run of this name, or None for a file."""
    return () if Path(name).is_file() else (find_run(name, runs),)
