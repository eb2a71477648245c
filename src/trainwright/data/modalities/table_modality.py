"""Tables as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.split import GroupSplit, StratifiedGroupSplit
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import Mistake
from trainwright.data.audit.audit_result import AuditResult, findings_beside
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import IN_MEMORY, taken
from trainwright.data.base.table import Part, PartName
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import Encoding, FrameEncoding
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFiles,
    NewPart,
    SplitSettings,
)
from trainwright.data.modalities.table_look import (
    audit_table,
    left_to_models,
    look_at_table,
    table_task,
)
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.sources.find_source import read_source, skipped_notes
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.split.groups import group_codes
from trainwright.data.types import Prepared
from trainwright.data.versions.snapshot import snapshot_of_run

if TYPE_CHECKING:
    from trainwright.data.quality.examined_data import ExaminedData
    from trainwright.data.quality.run_checks import Effort


_BLOCK_ROWS = 100_000


@final
class TableModality(Modality[TableData, RawTable]):
    """Rows of typed columns."""

    section = TableData
    is_sampled = True

    def read(
        self,
        section: TableData,
        folder: Path,
        frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawTable:
        """As `read_table`."""
        return read_table(section, folder, frames)

    def prepare(self, raw: RawTable, split: SplitSettings[TableData]) -> Prepared:
        """As `prepare_table`."""
        return prepare_table(raw, split.section, table_task(split), split.seed, split.texts)

    def prepare_fold(
        self, raw: RawTable, split: SplitSettings[TableData], number: int, /
    ) -> Prepared:
        """As `prepare_table.prepare_fold`."""
        return prepare_fold(raw, split.section, table_task(split), split.seed, number, split.texts)

    def prepare_refit(self, raw: RawTable, split: SplitSettings[TableData], /) -> Prepared:
        """As `prepare_table`."""
        task = table_task(split)
        return prepare_table(raw, split.section, task, split.seed, split.texts, refit=True)

    def after_split(self, raw: RawTable, section: TableData, /) -> RawTable:
        """Without the unsplit rows, which only folds still need."""
        return raw if fold_count(section) else replace(raw, frames={}, positions={})

    def keep_rows(self, raw: RawTable, section: TableData, name: str, folder: Path, /) -> None:
        """The snapshot that `data diff` compares."""
        snapshot_of_run(raw, section, name).write(folder)

    def left_to_models(self, raw: RawTable, section: TableData, /) -> tuple[str, ...]:
        """Those of a large table."""
        return left_to_models(raw, section)

    def look(
        self,
        raw: RawTable,
        prepared: Prepared,
        split: SplitSettings[TableData],
        _folder: Path,
        limits: LookLimits,
    ) -> LookedAt:
        """As `look_at_table`."""
        return look_at_table(raw, prepared, split, limits)

    def check(
        self,
        section: TableData,
        folder: Path,
        split: Callable[[RawTable], SplitSettings[TableData]],
        _seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of all cells, and leaks of the split."""
        # Imported here, as in `table_look`.
        from trainwright.data.quality.read_unchecked import examine_table
        from trainwright.data.quality.run_checks import find_faults, unanswered

        data = examine_table(section, folder)
        data, audited = _divided(section, folder, data, split, tell)
        faults = find_faults(data, section.columns, effort, tell, audited=bool(audited))
        faults = unanswered(faults, section.split)
        return worst_first((*faults, *findings_beside(audited, faults)))

    def rows_as_given(self, raw: RawTable, part: Part, /) -> Iterator[pl.DataFrame]:
        """All columns, typed, before any action of the contract on their values."""
        name: PartName = part.name if part.name in raw.frames else "train"
        places = np.searchsorted(raw.positions[name], part.rows)
        for start in range(0, len(places), _BLOCK_ROWS):
            yield IN_MEMORY.frame(taken(raw.frames[name], places[start : start + _BLOCK_ROWS]))

    def part_as_read(
        self, raw: RawTable, part: Part, features: Encoding, target: Target, /
    ) -> Part | None:
        """All rows, for a model of tables."""
        if features.modality != "table":
            return None
        # Imported here: a training without a teacher reads no labelled rows.
        from trainwright.data.labelled_part import read_part

        frame = pl.concat(self.rows_as_given(raw, part))
        return read_part(frame, FrameEncoding.of_kind(features), target)

    def read_labelled(
        self, data: str, features: Encoding, target: Target, section: TableData, reading: Reading
    ) -> NewPart:
        """A file of any form that a table may have."""
        source = read_source(data, Path(), "DATA", reading)
        # Imported here: a training reads none.
        from trainwright.data.labelled_part import read_part

        part = read_part(source.frame, FrameEncoding.of_kind(features), target)
        part, ungrouped = _with_groups(part, section)
        return NewPart(part, source.files, ungrouped, skipped_notes(source))

    def names_of_files(self, section: TableData, folder: Path, /) -> NewFiles:
        """A file of rows."""
        written = section.test_path or section.path or section.train_path
        here = "ROWS.csv" if is_remote(written) else str(folder / written)
        return NewFiles(here, "ROWS.csv", "LABELLED_ROWS.csv")


def _with_groups(part: Part, section: TableData) -> tuple[Part, str]:
    """Use groups as the unit of the intervals if the run's split used them; else the name of the
    column that these rows lack."""
    split = section.split
    if not isinstance(split, GroupSplit | StratifiedGroupSplit):
        return part, ""
    if split.column not in part.frame.columns:
        return part, split.column
    return replace(part, units=group_codes(to_labels(part.frame[split.column]))), ""


def _divided(
    section: TableData,
    folder: Path,
    data: ExaminedData,
    split: Callable[[RawTable], SplitSettings[TableData]],
    tell: Callable[[str], None],
) -> tuple[ExaminedData, tuple[AuditResult, ...]]:
    """Rows with their parts, and their audit; unsplit and without an audit if the data cannot be
    prepared yet."""
    from trainwright.data.quality.read_unchecked import divided, examine_prepared

    try:
        raw = read_table(section, folder)
        settings = split(raw)
        prepared = prepare_table(raw, settings.section, table_task(settings), settings.seed)
    except Mistake as mistake:
        tell(f"faults in undivided rows, since they cannot be divided: {mistake.problems[0]}")
        return data, ()
    audited = audit_table(raw, prepared, settings)
    return divided(data, examine_prepared(raw, prepared, section)), audited
