"""Quality actions of the contract: drop, relabel, cap and impute, with a record of each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.quality import Action, FindingKind
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import Floats, Integers, PartName
from trainwright.data.base.messages import MOST_LISTED, AppliedAction, quoted, some
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    RowStorage,
    gathered,
    positions_of_code,
    slices_of,
    taken,
)
from trainwright.data.columns.typed_rows import Limit, limited
from trainwright.data.quality.copies.duplicates import compared, first_of_each, typed_frame
from trainwright.data.quality.copies.near_duplicates import MOST_ROWS, near_groups
from trainwright.data.quality.examined_data import (
    ExaminedData,
    column_settings_of,
    examine,
    examined_target,
    key_columns,
    other_targets,
    together,
)
from trainwright.data.quality.finding import Acted, Finding
from trainwright.data.quality.labels.label_errors import Suspects, Unjudged, find_suspects
from trainwright.data.quality.row_faults import BY_ROW, faulty_rows, is_by_row, written_limits
from trainwright.data.quality.run_checks import find_kind
from trainwright.data.split.hidden_columns import without_hidden

_COLUMN_KINDS = frozenset({"leak", "suspicious_feature", "identifier"})
_NO_ROWS = np.empty(0, dtype=np.int64)

Flags = npt.NDArray[np.bool_]


@final
@dataclass(slots=True)
class _Work:
    """State between actions: the parts so far and the record of changes. `places` are positions of
    the training rows in their file, `space` is where they are stored."""

    frames: dict[PartName, pl.DataFrame]
    section: TableData
    places: Integers
    space: RowStorage
    columns: set[str] = field(default_factory=set)
    limits: list[Limit] = field(default_factory=list)
    done: list[AppliedAction] = field(default_factory=list)

    @property
    def left_out(self) -> frozenset[str]:
        """Columns excluded from the features."""
        section = self.section
        ignored = [name for name, column in section.columns.items() if column.kind == "ignored"]
        never = {*section.exclude, *key_columns(section), *ignored, *self.columns}
        return frozenset(never - set(section.target_columns))

    def examined(self, *parts: PartName) -> ExaminedData:
        """Rows of these parts, concatenated."""
        return examine(
            together([without_hidden(self.frames[part]) for part in parts]),
            examined_target(self.section),
            column_settings_of(self.section, self.frames["train"]),
            Cleaning((), {}),
            self.left_out | set(other_targets(self.section)),
        )

    def drop(self, kind: FindingKind, faulty: Flags) -> None:
        """Drop the training rows flagged in `faulty` [N]."""
        rows, stay = (positions_of_code(has, faulty, self.space) for has in (True, False))
        if not len(rows):
            return
        if not len(stay):
            raise _nothing_left(kind, len(rows))
        message = f"{many(len(rows), 'training row')} dropped ({kind})"
        self.note(kind, "drop", message, rows)
        self.frames["train"] = self.space.frame(taken(self.frames["train"], stay))
        self.places = gathered(self.places, stay, self.space)

    def note(
        self,
        kind: FindingKind,
        action: Action,
        message: str,
        rows: Integers,
        columns: tuple[str, ...] = (),
    ) -> None:
        """Record an action and its row count."""
        places = tuple(self.places[rows[:MOST_LISTED]].tolist())
        self.done.append(
            AppliedAction(kind, action, message, len(rows) or len(columns), places, columns)
        )


def act(
    frames: Mapping[PartName, pl.DataFrame],
    places: Integers,
    section: TableData,
    space: RowStorage = IN_MEMORY,
) -> Acted:
    """Apply the contract's quality actions to the typed training rows, whose positions in their
    file are `places`. For rows in files the plan admits only actions that are `is_by_row`.

    Order: drop columns, relabel, drop rows, fit limits; each step sees the training rows that the
    previous steps left. Of duplicates, training rows that equal a validation or test row go too, so
    that no other part changes.

    Raises:
        DataMistake: an action is `fail` and its fault is present, no training row would remain,
            there are too many rows for a requested check, or a numeric target is to be relabelled.
    """
    wanted = section.quality.asked()
    if not wanted:
        return Acted(frames["train"], places)
    assert space is IN_MEMORY or all(map(is_by_row, wanted, wanted.values())), (
        "the plan refuses every other action"
    )
    if wanted.get("near_duplicates", "report") != "report":
        _check_rows(sum(frame.height for frame in frames.values()))
    work = _Work(dict(frames), section, places, space)
    _take_actions(work, wanted)
    return Acted(
        work.frames["train"],
        work.places,
        frozenset(work.columns),
        tuple(work.limits),
        tuple(work.done),
    )


def _take_actions(work: _Work, wanted: Mapping[FindingKind, Action]) -> None:
    _fail(work, [kind for kind, action in wanted.items() if action == "fail"])
    for kind in [kind for kind, action in wanted.items() if action == "drop"]:
        if kind in _COLUMN_KINDS:
            _drop_columns(work, kind)
    if wanted.get("label_error") == "relabel":
        _relabel(work)
    for kind in [kind for kind, action in wanted.items() if action == "drop"]:
        if kind not in _COLUMN_KINDS:
            work.drop(kind, _faulty(work, kind))
    for kind, action in wanted.items():
        if action in ("cap", "impute"):
            _limit(work, kind, "cap" if action == "cap" else "impute")


def _fail(work: _Work, kinds: list[FindingKind]) -> None:
    if not kinds:
        return
    data = work.examined(*work.frames)
    sizes = [frame.height for frame in work.frames.values()]
    data.parts[:] = np.repeat(np.arange(len(sizes)), sizes)
    found = [one for kind in kinds for one in find_kind(data, kind, work.section.columns)]
    if any(finding.count for finding in found):
        raise DataMistake(_refused(finding) for finding in found if finding.count)
    for finding in found:
        work.note(finding.kind, "fail", f"allowed: {finding.message}", _NO_ROWS)


def _refused(finding: Finding) -> Problem:
    return Problem(
        finding.message,
        path=f"data.quality.actions.{finding.kind}",
        found=f"{finding.count:,} ({finding.kind})",
        expected="none: the contract says fail",
        fix=f"{finding.fix}; trainwright data check names the rows",
    )


def _check_rows(count: int) -> None:
    if count > MOST_ROWS:
        raise DataMistake(
            Problem(
                "too many rows for the near-duplicate check",
                path="data.quality.actions.near_duplicates",
                found=f"{count:,} rows",
                expected=f"at most {MOST_ROWS:,}",
                fix="remove the action, or use exact_duplicates",
            )
        )


def _nothing_left(kind: FindingKind, count: int) -> DataMistake:
    return DataMistake(
        Problem(
            "no training row would remain",
            path=f"data.quality.actions.{kind}",
            found=f"drop, with {many(count, 'row')} to drop",
            fix="inspect the rows with trainwright data check, or choose report",
        )
    )


def _drop_columns(work: _Work, kind: FindingKind) -> None:
    found = find_kind(work.examined("train"), kind, work.section.columns)
    names = tuple(dict.fromkeys(name for finding in found for name in finding.columns))
    if names:
        work.columns.update(names)
        message = f"columns {quoted(names)} excluded ({kind}: {found[0].message})"
        work.note(kind, "drop", message, _NO_ROWS, names)


def _relabel(work: _Work) -> None:
    if work.frames["train"][work.section.target_name].dtype != pl.String:
        raise DataMistake(
            Problem(
                "a numeric target cannot be relabelled",
                path="data.quality.actions.label_error",
                found="relabel",
                expected="report, drop or fail",
                fix="inspect the rows with trainwright data check, or choose drop",
            )
        )
    suspects = _suspects(work, "relabel")
    if not len(suspects.rows):
        return
    target = work.section.target_name
    labels = work.frames["train"][target]
    changed = labels.scatter(suspects.rows, suspects.likelier).alias(target)
    work.frames["train"] = work.frames["train"].with_columns(changed)
    pairs = [f"{a!r} to {b!r}" for a, b in zip(suspects.given, suspects.likelier, strict=True)]
    message = f"{len(suspects.rows):,} training rows relabelled: {some(list(dict.fromkeys(pairs)))}"
    work.note("label_error", "relabel", message, suspects.rows, (target,))


def _suspects(work: _Work, action: Action) -> Suspects:
    """Most confident label errors of the training rows, at most the lower confidence bound of their
    number. Empty, with a note, where labels cannot be judged."""
    found = find_suspects(work.examined("train"))
    if isinstance(found, Unjudged) or (found.open and not found.least):
        work.note("label_error", action, f"no training row changed: {found}", _NO_ROWS)
        return Suspects(_NO_ROWS, [], [])
    return found.vouched()


def _faulty(work: _Work, kind: FindingKind) -> Flags:
    """Fault mask of the training rows, bool [N]."""
    train = work.frames["train"]
    if kind in BY_ROW:
        return faulty_rows(train, kind, work.section, work.left_out, work.space)
    faulty = np.zeros(train.height, dtype=np.bool_)
    if kind in ("exact_duplicates", "near_duplicates"):
        faulty[_copies(work, kind)] = True
    elif kind == "label_error":
        faulty[_suspects(work, "drop").rows] = True
    else:
        for one in find_kind(work.examined("train"), kind, work.section.columns):
            faulty[list(one.rows)] = True
    return faulty


def _copies(work: _Work, kind: FindingKind) -> Integers:
    """Training rows that duplicate an earlier training row or a row of another part."""
    order: list[PartName] = [*(part for part in work.frames if part != "train"), "train"]
    data = work.examined(*order)
    held = len(data) - work.frames["train"].height
    if kind == "exact_duplicates":
        group = first_of_each(typed_frame(data, [look.name for look in compared(data.looks)]))
        copies = np.flatnonzero(group != np.arange(len(data)))
    else:
        # An exact copy in features is not a near duplicate, whatever its label, unless it is a near
        # duplicate of a row of another part.
        first, group, _ = near_groups(data)
        apart = group[:held][first[:held] == np.arange(held)]
        others = np.bincount(apart, minlength=len(data))[group] - (first < held)
        copies = np.flatnonzero((group != first) | (others > 0))
    rows: Integers = copies[copies >= held] - held
    return rows


def _limit(work: _Work, kind: FindingKind, beyond: Literal["cap", "impute"]) -> None:
    """Fit limits on the training rows for each column with the fault."""
    if kind in BY_ROW:
        train = work.frames["train"]
        for limit in written_limits(train, work.section, work.left_out, beyond):
            column = train.select(limit.column)
            faulty = faulty_rows(column, kind, work.section, work.left_out, work.space)
            _end(work, kind, limit, positions_of_code(True, faulty, work.space))
        return
    data = work.examined("train")
    found = find_kind(data, kind, work.section.columns)
    for look in data.of_kind("numeric"):
        if not look.cells.dtype.is_numeric():
            # Class labels that look numeric in these rows.
            continue
        every = {row for one in found if look.name in one.columns for row in one.rows}
        rows = np.array(sorted(every), dtype=np.int64)
        _end(work, kind, Limit(look.name, *_ends(look.numbers, rows), beyond), rows)


def _end(work: _Work, kind: FindingKind, limit: Limit, rows: Integers) -> None:
    if not math.isfinite(limit.low) and not math.isfinite(limit.high):
        return
    work.limits.append(limit)
    message = _changed_by(work.frames, limit, kind)
    work.note(kind, limit.beyond, message, rows, (limit.column,))


def _ends(numbers: Floats, rows: Integers) -> tuple[float, float]:
    """Range of the remaining rows on the side of the faulty ones; infinite on the other side."""
    others = np.delete(numbers, rows)
    others = others[np.isfinite(others)]
    low, high = -math.inf, math.inf
    if len(rows) and len(others):
        faulty = numbers[rows]
        low = float(others.min()) if (faulty < others.min()).any() else low
        high = float(others.max()) if (faulty > others.max()).any() else high
    return low, high


def _changed_by(frames: Mapping[PartName, pl.DataFrame], limit: Limit, kind: FindingKind) -> str:
    """Message: what a limit changes, with counts per part."""
    verb = "capped" if limit.beyond == "cap" else "set to missing"
    counts = []
    for part, frame in frames.items():
        changed = 0
        for rows in slices_of(frame.select(limit.column)):
            before = rows[limit.column].cast(pl.Float64)
            after = limited(rows, [limit])[limit.column].cast(pl.Float64)
            changed += int((~before.eq_missing(after)).sum())
        counts.append(f"{changed:,} {part}")
    values = f"{', '.join(counts)} values"
    return f"{limit.column!r} {verb} {limit} in every row: {values} ({kind})"
