"""Tables as a kind of data, and their audit and quality checks.

Large ones are checked on a sample. What checks is imported when it does: a run that keeps the
findings of an earlier one needs none of it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from trainwright.data.base.inputs import Part, PartName
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import IN_MEMORY, taken
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding, FrameEncoding
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFiles,
    NewPart,
    SplitSettings,
)
from trainwright.data.prepare_table import TableTask, prepare_fold, prepare_table
from trainwright.data.quality.examined_data import other_targets
from trainwright.data.quality.finding import Finding, Subset, worst_first
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.sources.find_source import read_source, skipped_notes
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.split.groups import group_codes
from trainwright.data.subsample import thinned
from trainwright.data.types import Prepared
from trainwright.data.versions.snapshot import snapshot_of_run

if TYPE_CHECKING:
    from trainwright.data.quality.examined_data import ExaminedData
    from trainwright.data.quality.run_checks import Effort

MOST_AUDITED = 100_000
"""Sample size of the leakage audit, for rows in files or for more than `MOST_IN_MEMORY`."""

MOST_IN_MEMORY = 500_000
"""Up to this many rows in memory are audited in full."""

MOST_CHECKED = 50_000
"""Sample size of the quality checks for a larger table."""

MOST_ROWS_JUDGED = 20_000
"""Sample size of model-based label checks, for a table of more than `MOST_CHECKED` rows."""

_BLOCK_ROWS = 100_000


def table_task(split: SplitSettings[TableData]) -> TableTask:
    """The task of a table."""
    assert split.task != "generation", "the rules refuse it for a table"
    assert split.task != "forecasting", "the rules refuse it for a table"
    assert split.task != "retrieval", "the rules refuse it for a table"
    return split.task


def left_to_models(raw: RawTable, section: TableData) -> tuple[str, ...]:
    """What models find in a large table; folds are distinguished during the audit."""
    if raw.facts.rows <= MOST_CHECKED:
        return ()
    from trainwright.data.audit.run_audit import are_parts_drawn
    from trainwright.data.quality.run_checks import BY_MODELS

    of_rows = BY_MODELS if section.quality.look == "all" else ()
    compares_parts = not fold_count(section) and not are_parts_drawn(section)
    return (*of_rows, "different rows") if compares_parts else of_rows


def look_at_table(
    raw: RawTable, prepared: Prepared, split: SplitSettings[TableData], limits: LookLimits
) -> LookedAt:
    """Findings on a sample of at most so many rows, which is then reported."""
    rows, subset = raw.facts.rows, limits.subset
    most = rows if limits.rows == "all" else limits.rows
    audited, looked_at = _audit_sample(raw, prepared, split, most, subset)
    checked = min(rows, most, MOST_CHECKED)
    judged = min(checked, MOST_ROWS_JUDGED) if checked < rows else rows
    judged = 0 if subset == "others" else judged
    sample = {"rows": rows, "checks": checked, "audit": looked_at, "labels": judged}
    found = _check_sample(split.section, raw, prepared, sample, subset)
    left = left_to_models(raw, split.section) if subset == "others" else ()
    return LookedAt(audited, (*_sampled_rows(raw, sample, left), *found), sample)


def audit_table(
    raw: RawTable, prepared: Prepared, split: SplitSettings[TableData], subset: Subset = "all"
) -> tuple[AuditResult, ...]:
    """All audit tests, with folds for each of them."""
    from trainwright.data.audit.run_audit import audit, audit_folds

    section, task = split.section, table_task(split)
    if not (count := fold_count(section)):
        return audit(prepared, section, subset)
    folds = (prepare_fold(raw, section, task, split.seed, number) for number in range(count))
    return audit_folds(folds, section)


def table_faults(
    section: TableData,
    raw: RawTable,
    prepared: Prepared,
    most_judged: int = sys.maxsize,
    subset: Subset = "all",
) -> tuple[Finding, ...]:
    """The findings of `data check`, except surrounding blanks, which are already stripped, and
    leaks, which the audit of the split finds. Labels of more rows than `most_judged` are judged on
    an even subsample."""
    from trainwright.data.quality.run_checks import (
        examine_prepared,
        find_faults,
        find_target_faults,
    )

    others = other_targets(section) if prepared.target.target_columns[1:] else ()
    of_others = [
        fault
        for name in others
        for fault in find_target_faults(examine_prepared(raw, prepared, section, name))
    ]
    found = find_faults(
        examine_prepared(raw, prepared, section),
        section.columns,
        section.quality.look,
        audited=True,
        most_judged=most_judged,
        subset=subset,
    )
    return worst_first([*found, *of_others])


def _audit_sample(
    raw: RawTable, prepared: Prepared, split: SplitSettings[TableData], most: int, subset: Subset
) -> tuple[tuple[AuditResult, ...], int]:
    """Findings of the leakage audit on a sample of this size, and the sample size."""
    data, in_files = split.section, raw.facts.placing.rows_in == "files"
    in_part, rows = is_audited_in_part(raw, most), min(MOST_AUDITED, most)
    if fold_count(data) and subset == "by_models":
        # Each fold is prepared once, for all tests: these stand among the others.
        return (), rows if in_part and in_files else raw.facts.rows
    if not in_part:
        return audit_table(raw, prepared, split, subset), raw.facts.rows
    fewer, some = thinned(raw, prepared, rows)
    if in_files:
        return audit_table(fewer, some, split, subset), rows
    if fold_count(data):
        return audit_table(raw, some, split), raw.facts.rows
    from trainwright.data.audit.run_audit import audit_sampled

    return audit_sampled(prepared, some, data, subset), rows


def is_audited_in_part(raw: RawTable, most: int = sys.maxsize) -> bool:
    """Is only a sample audited? Yes for more than `most` rows, or for many rows, fewer for rows in
    files."""
    in_files = raw.facts.placing.rows_in == "files"
    return raw.facts.rows > min(most, MOST_AUDITED if in_files else MOST_IN_MEMORY)


def _check_sample(
    data: TableData,
    raw: RawTable,
    prepared: Prepared,
    sample: Mapping[str, int],
    subset: Subset,
) -> tuple[Finding, ...]:
    """Findings of the quality checks on a sample of this size, each with a note of that."""
    rows, judged = sample["checks"], sample["labels"]
    if raw.facts.rows == rows:
        return table_faults(data, raw, prepared)
    fewer, some = thinned(raw, prepared, rows)
    found = table_faults(data, fewer, some, judged, subset)
    looked_at = ((one, judged if one.kind == "label_error" else rows) for one in found)
    return tuple(
        replace(one, message=f"{one.message} (among the {count:,} rows looked at)")
        for one, count in looked_at
    )


def _sampled_rows(
    raw: RawTable, sample: Mapping[str, int], left: Sequence[str]
) -> tuple[Finding, ...]:
    """Sample sizes of the checks and the audit, where they are not complete, and the checks left to
    the training."""
    rows, checked, audited = sample["rows"], sample["checks"], sample["audit"]
    judged = sample["labels"]
    if min(checked, audited) == rows:
        return ()
    also = f", models judged the labels of {judged:,}" if 0 < judged < checked else ""
    if audited < rows:
        in_full = "; it compares equal rows, groups and times of the parts in full"
        in_full = "" if raw.facts.placing.rows_in == "files" else in_full
        also += f", the leakage audit looked at {audited:,}{in_full}"
    if left:
        also += f"; left to train, which fits models for it: {', '.join(left)}"
    message = (
        f"the checks looked at {checked:,} of {rows:,} rows, evenly spread: what is rare may not "
        f"be among them{also}"
    )
    return (Finding("sampled", "info", message, rows - min(checked, audited)),)


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
        # Imported here, as in `look_at_table`.
        from trainwright.data.quality.run_checks import examine_table, find_faults

        data = examine_table(section, folder)
        data, audited = _divided(section, folder, data, split, tell)
        faults = find_faults(data, section.columns, effort, tell, audited=bool(audited))
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
    from trainwright.data.quality.run_checks import divided, examine_prepared

    try:
        raw = read_table(section, folder)
        settings = split(raw)
        prepared = prepare_table(raw, settings.section, table_task(settings), settings.seed)
    except Mistake as mistake:
        tell(f"faults in undivided rows, since they cannot be divided: {mistake.problems[0]}")
        return data, ()
    audited = audit_table(raw, prepared, settings)
    return divided(data, examine_prepared(raw, prepared, section)), audited
