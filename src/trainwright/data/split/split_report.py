"""Split report: sizes, shares, and checks of the separation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.split import (
    GroupSplit,
    RandomSplit,
    Split,
    StratifiedGroupSplit,
    TimeSplit,
)
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_labels
from trainwright.data.base.inputs import PartName
from trainwright.data.base.row_storage import IN_MEMORY, RowStorage, bounds, slices_of
from trainwright.data.split.groups import combined_label_codes
from trainwright.data.split.time_split import times

_REASONS = {
    "random": "rows are drawn independently",
    "random by a key": "drawn by key: rows with equal keys are in the same part",
    "stratified": "drawn within each class: all parts have the same class shares",
    "group": "groups are kept together: the score is for unseen groups",
    "time": "the oldest rows train, the newest test: the score is for the future",
    "stratified_group": "groups are kept together, with similar class shares",
    "column": "a column defines the parts",
    "file": "a file defines the parts",
    "given": "each part has its own file",
}


@final
@dataclass(frozen=True, slots=True)
class SplitReport:
    """Result of a split. Mappings are by part, empty where not applicable.

    `groups_on_two_sides` and `future_rows_in_training` are 0 for every split made here.
    `duplicate_rows` counts validation and test rows that equal a training row in every feature and
    the target. `left_out` counts rows in no part: inside a gap, or before the window.

    `folds` holds the rows of each part for each fold under cross-validation; the other fields are
    then of the run's own model, whose test part is the rows of all folds, and violations are summed
    over the folds.
    """

    kind: str
    reason: str
    rows: Mapping[str, int]
    class_shares: Mapping[str, Mapping[str, float]]
    target_mean: Mapping[str, float]
    groups: Mapping[str, int]
    groups_on_two_sides: int
    time_ranges: Mapping[str, tuple[str, str]]
    future_rows_in_training: int
    duplicate_rows: int
    left_out: int = 0
    folds: tuple[Mapping[str, int], ...] = ()

    def to_json(self) -> Json:
        """The fields by name."""
        ends = {part: list(one) for part, one in self.time_ranges.items()}
        return {**asdict(self), "time_ranges": ends, "folds": [dict(rows) for rows in self.folds]}


def report_split(
    frames: Mapping[PartName, pl.DataFrame],
    split: Split,
    target: str,
    compared: Sequence[str],
    made: bool,
    left_out: int = 0,
    space: RowStorage = IN_MEMORY,
) -> SplitReport:
    """Measure a split. `target` is the column of the target, empty for several. `compared` are the
    columns compared for duplicates (an identifier would hide them all); `made`: some part was split
    off here; `space` holds one number per row."""
    kind = split.kind if made else "given"
    by_key = made and isinstance(split, RandomSplit) and bool(split.key)
    labels = {part: frame[target] for part, frame in frames.items()} if target else {}
    classes = bool(labels) and labels["train"].dtype == pl.String
    groups, shared = _groups(frames, split, space)
    ranges, future = _times(frames, split)
    return SplitReport(
        kind=kind,
        reason=_REASONS["random by a key" if by_key else kind],
        rows={part: frame.height for part, frame in frames.items()},
        class_shares={p: _shares(series) for p, series in labels.items()} if classes else {},
        target_mean={} if classes else {p: _mean(series) for p, series in labels.items()},
        groups=groups,
        groups_on_two_sides=shared,
        time_ranges=ranges,
        future_rows_in_training=future,
        duplicate_rows=_duplicates(frames, compared, space),
        left_out=left_out,
    )


def report_folds(whole: SplitReport, folds: Sequence[SplitReport]) -> SplitReport:
    """Report of the run's own model, combined with those of its folds."""
    return replace(
        whole,
        reason=f"{len(folds)} folds, each predicted by a model not trained on it: {whole.reason}",
        groups_on_two_sides=sum(one.groups_on_two_sides for one in folds),
        future_rows_in_training=sum(one.future_rows_in_training for one in folds),
        duplicate_rows=sum(one.duplicate_rows for one in folds),
        folds=tuple(one.rows for one in folds),
    )


def check_crossing(
    report: SplitReport, split: Split, path: str = "data.split.column", column: str = ""
) -> None:
    """Check given files against the split's guarantee; `path` is the contract path that names the
    group column, `column` its name if it differs from the split's.

    Raises:
        DataMistake: groups or timestamps cross the split.
    """
    problems: list[Problem] = []
    if report.groups_on_two_sides and isinstance(split, GroupSplit | StratifiedGroupSplit):
        problems.append(
            Problem(
                f"{many(report.groups_on_two_sides, 'group stands', 'groups stand')} in more than "
                "one of the given files",
                path=path,
                found=f"column {(column or split.column)!r}",
                expected="every group in one file",
                fix="give one file in data.path and split it by group",
            )
        )
    if (late := report.future_rows_in_training) and isinstance(split, TimeSplit):
        problems.append(
            Problem(
                f"{many(late, 'training row is', 'training rows are')} not older than the "
                "validation and test rows",
                path="data.split.column",
                found=", ".join(f"{p} {a} to {b}" for p, (a, b) in report.time_ranges.items()),
                expected="training rows that are the oldest",
                fix="give one file in data.path and split it by time",
            )
        )
    if problems:
        raise DataMistake(problems)


def _shares(labels: pl.Series) -> dict[str, float]:
    counts = count_labels(labels)
    return {name: count / counts.total() for name, count in sorted(counts.items())}


def _mean(series: pl.Series) -> float:
    return sum(float(np.sum(part.to_numpy())) for part in slices_of(series)) / max(1, len(series))


def _groups(
    frames: Mapping[PartName, pl.DataFrame], split: Split, space: RowStorage
) -> tuple[dict[str, int], int]:
    """Number of groups in each part, and in more than one part."""
    if not isinstance(split, GroupSplit | StratifiedGroupSplit):
        return {}, 0
    codes = combined_label_codes((frame[split.column] for frame in frames.values()), space)
    rows = [np.bincount(one) for one in codes]
    most = max(len(one) for one in rows)
    present = np.stack([np.pad(one > 0, (0, most - len(one))) for one in rows])
    counts = (int(one.sum()) for one in present)
    return dict(zip(frames, counts, strict=True)), int((present.sum(axis=0) > 1).sum())


def _times(
    frames: Mapping[PartName, pl.DataFrame], split: Split
) -> tuple[dict[str, tuple[str, str]], int]:
    """First and last timestamp of each part, and the number of training rows not older than every
    row of the other parts."""
    if not isinstance(split, TimeSplit):
        return {}, 0
    columns = {part: times(frame, split.moment) for part, frame in frames.items()}
    ranges: dict[str, tuple[str, str]] = {
        part: (str(column.min()), str(column.max())) for part, column in columns.items()
    }
    first = [column.min() for part, column in columns.items() if part != "train"]
    later = pl.Series(first, dtype=columns["train"].dtype).min()
    return ranges, sum(int((some >= later).sum()) for some in slices_of(columns["train"]))


def _duplicates(
    frames: Mapping[PartName, pl.DataFrame], compared: Sequence[str], space: RowStorage
) -> int:
    known = space.array((frames["train"].height,), np.uint64)
    for (start, stop), rows in zip(bounds(len(known)), slices_of(frames["train"]), strict=True):
        known[start:stop] = _hashes(rows, compared)
    known.sort()
    others = (rows for part in frames if part != "train" for rows in slices_of(frames[part]))
    return sum(_among(_hashes(rows, compared), known) for rows in others)


def _hashes(rows: pl.DataFrame, compared: Sequence[str]) -> npt.NDArray[np.uint64]:
    return rows.select(compared).hash_rows(seed=0).to_numpy()


def _among(hashes: npt.NDArray[np.uint64], known: npt.NDArray[np.uint64]) -> int:
    """Number of hashes among the (ascending) known ones."""
    if not len(known):
        return 0
    # Sorted, for sequential page access.
    hashes = np.sort(hashes)
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return int((known[places] == hashes).sum())
