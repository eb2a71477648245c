"""Audit and quality checks of a table, of large ones on a sample. What checks is imported when it
does: a run that keeps the findings of an earlier one needs none of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.table_data import TableData
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.modalities.modality import LookedAt, LookLimits, SplitSettings
from trainwright.data.prepare_table import TableTask, prepare_fold
from trainwright.data.quality.column_settings import other_targets
from trainwright.data.quality.finding import Finding, Subset, worst_first
from trainwright.data.read_table import RawTable
from trainwright.data.subsample import thinned
from trainwright.data.types import Prepared

MOST_AUDITED = 100_000
"""Sample size of the leakage audit, for rows in files or for more than `MOST_IN_MEMORY`."""

MOST_IN_MEMORY = 500_000
"""Up to this many rows in memory are audited in full."""

MOST_CHECKED = 50_000
"""Sample size of the quality checks for a larger table."""

MOST_ROWS_JUDGED = 20_000
"""Sample size of model-based label checks, for a table of more than `MOST_CHECKED` rows."""


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
    from trainwright.data.quality.run_checks import BY_MODELS

    of_rows = BY_MODELS if section.quality.look == "all" else ()
    return of_rows if fold_count(section) else (*of_rows, "different rows")


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
    from trainwright.data.quality.read_unchecked import examine_prepared
    from trainwright.data.quality.run_checks import find_faults, find_target_faults, unanswered

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
    return unanswered(worst_first([*found, *of_others]), section.split)


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
