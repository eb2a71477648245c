"""Difference of two data versions: rows, columns, distributions and labels."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Literal, final

import numpy as np

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.data.base.counter_rng import Words
from trainwright.data.statistics.profile import Profile, distance, pictures
from trainwright.data.versions.snapshot import DataSnapshot

MOVED = 0.1
"""Distance from which a column counts as shifted."""


@final
@dataclass(frozen=True, slots=True)
class RowChanges:
    """Counts of added, removed and changed rows (same key, other cells).

    Without a key a changed row is one removed and one added. `known` is false if one of the two has
    no hashes.
    """

    added: int
    removed: int
    changed: int
    same: int
    key: str
    known: bool

    def to_json(self) -> Json:
        """The fields by name."""
        return asdict(self)


@final
@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column in both. `distance` is 0 for the same distribution and 1 for no overlap."""

    name: str
    kind: Literal["same", "moved", "retyped"]
    distance: float
    before: Profile
    after: Profile

    def to_json(self) -> Json:
        """The numbers, without the distributions themselves."""
        return {
            "name": self.name,
            "kind": self.kind,
            "distance": self.distance,
            "missing": [self.before.missing, self.after.missing],
            "distinct": [self.before.distinct, self.after.distinct],
            "mean": [self.before.mean, self.after.mean],
            "types": [self.before.kind, self.after.kind],
            "pictures": list(pictures(self.before, self.after)),
        }


@final
@dataclass(frozen=True, slots=True)
class Difference:
    """Differences between A and B. `settings` are contract paths with both values, if both are
    runs."""

    names: tuple[str, str]
    rows: tuple[int, int]
    changes: RowChanges
    added_columns: tuple[str, ...]
    removed_columns: tuple[str, ...]
    columns: tuple[ColumnChange, ...]
    target: str
    settings: tuple[tuple[str, Json, Json], ...] = ()

    def to_json(self) -> Json:
        """Everything, as JSON; the labels are those of the target's column."""
        labels = next((one for one in self.columns if one.name == self.target), None)
        words = labels is not None and labels.before.kind == labels.after.kind == "words"
        return {
            "names": list(self.names),
            "rows": list(self.rows),
            "row_changes": self.changes.to_json(),
            "added_columns": list(self.added_columns),
            "removed_columns": list(self.removed_columns),
            "columns": [one.to_json() for one in self.columns],
            "target": self.target,
            "labels": [dict(labels.before.values), dict(labels.after.values)]
            if labels is not None and words
            else [],
            "settings": [list(one) for one in self.settings],
        }


def differ(a: DataSnapshot, b: DataSnapshot) -> Difference:
    """Compare two snapshots.

    Raises:
        Mistake: their hashes are of different keys.
    """
    before = {column.name: column for column in a.columns}
    after = {column.name: column for column in b.columns}
    shared = [name for name in before if name in after]
    return Difference(
        names=(a.name, b.name),
        rows=(a.rows, b.rows),
        changes=_rows(a, b),
        added_columns=tuple(name for name in after if name not in before),
        removed_columns=tuple(name for name in before if name not in after),
        columns=tuple(_column(before[name], after[name]) for name in shared),
        target=a.target or b.target,
    )


def _column(before: Profile, after: Profile) -> ColumnChange:
    far = distance(before, after)
    kind: Literal["same", "moved", "retyped"] = "same"
    if before.kind != after.kind:
        kind = "retyped"
    elif far >= MOVED or abs(before.missing_share - after.missing_share) >= MOVED:
        kind = "moved"
    return ColumnChange(before.name, kind, far, before, after)


def _rows(a: DataSnapshot, b: DataSnapshot) -> RowChanges:
    if len(a.hashes) != a.rows or len(b.hashes) != b.rows:
        return RowChanges(0, 0, 0, 0, "", known=False)
    if not (a.key and b.key):
        same = _shared(a.hashes, b.hashes)
        return RowChanges(b.rows - same, a.rows - same, 0, same, "", known=True)
    if a.key != b.key:
        raise Mistake(
            Problem(
                "the two are told apart by different keys",
                found=f"{a.key} in {a.name}, {b.key} in {b.name}",
                expected="one key",
                fix="give the files with one key: trainwright data diff A B --key "
                f"{shlex.quote(a.key)}",
            )
        )
    order = np.argsort(a.keys)
    at = np.searchsorted(a.keys, b.keys, sorter=order).clip(max=max(0, a.rows - 1))
    there = a.keys[order[at]] == b.keys if a.rows else np.zeros(b.rows, dtype=np.bool_)
    same = int((a.hashes[order[at]] == b.hashes)[there].sum()) if a.rows else 0
    found = int(there.sum())
    return RowChanges(b.rows - found, a.rows - found, found - same, same, a.key, known=True)


def _shared(a: Words, b: Words) -> int:
    """Size of the multiset intersection of rows."""
    first, times = np.unique(a, return_counts=True)
    second, others = np.unique(b, return_counts=True)
    _, mine, theirs = np.intersect1d(first, second, return_indices=True, assume_unique=True)
    return int(np.minimum(times[mine], others[theirs]).sum())
