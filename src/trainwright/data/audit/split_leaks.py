"""Leakage by the split: groups on both sides, future training rows.

The between-value variance of the target does not show whether a model memorises a group: an
informative high-cardinality category looks the same. Such a column is at most suspicious, and
tested by experiment when a model is judged.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import (
    GroupSplit,
    StratifiedGroupSplit,
    TimeSplit,
    split_columns,
)
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult, Sides, Verdict
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.columns.column_kinds import name_tokens, names_birth
from trainwright.data.statistics.dependence import as_numbers, mean_of_all

GROUP_NAMES = frozenset(
    {"id", "subject", "patient", "user", "customer", "group", "session", "device", "household"}
)
"""Words in the names of group keys, if the values repeat accordingly."""

TELLS = 0.015
"""Between-group share of the target's variance from which a column without such a name counts as a
group. Observed quantities stay below 0.01 (ages of houses); the lecturers of InstEval are at
0.019."""

_FEWEST_GROUPS, _FEWEST_UNNAMED = 10, 100
_REPEATED = 0.2
_CROSSING = 0.05
_VALUES_PER_BIN = 5
_MOST_IN_ONE = 0.25
_QUANTITY = 0.5
_GIVES_AWAY = 0.9
_MOST_ROWS = 50_000


def same_groups(sides: Sides) -> list[AuditResult]:
    """Groups with rows on both sides."""
    split = sides.split
    if isinstance(split, GroupSplit | StratifiedGroupSplit):
        share, count = _crossing(sides, split.column)
        verdict: Verdict = "leak" if count else "clean"
        message = (
            f"{share:.1%} of the held-out rows have a {split.column!r} that is also in training"
        )
        return [_tested(verdict, share, message, split.column, count)]
    if isinstance(split, TimeSplit):
        message = "not checked: under a time split known groups continue"
        return [AuditResult("same groups", "clean", 0.0, message, "group_overlap")]
    found = [one for name in _candidates(sides) for one in _looked_at(sides, name)]
    if found:
        return found
    message = "no group-like column has values on both sides"
    return [AuditResult("same groups", "clean", 0.0, message, "group_overlap")]


def _candidates(sides: Sides) -> list[str]:
    """Columns of repeating names or integers."""
    used = {sides.target, *(name for _, name in split_columns(sides.split))}
    found = []
    for series in sides.train.get_columns():
        if series.name in used or not _is_name(series):
            continue
        if _repeats(series):
            found.append(series.name)
    return found


def _is_name(series: pl.Series) -> bool:
    if series.dtype == pl.String:
        return True
    if not series.dtype.is_numeric():
        return False
    numbers = series.drop_nulls()
    return bool((numbers == numbers.floor()).all())


def _repeats(series: pl.Series) -> bool:
    """Do at least ten values repeat, covering a fifth of the rows, with no dominant value (such as
    the zero of a quantity)?"""
    counts = count_values(series.drop_nulls())["count"].to_numpy()
    if not len(counts) or counts[0] > _MOST_IN_ONE * counts.sum():
        return False
    repeated = counts[counts > 1]
    return len(repeated) >= _FEWEST_GROUPS and int(repeated.sum()) >= _REPEATED * counts.sum()


def _looked_at(sides: Sides, name: str) -> list[AuditResult]:
    share, count = _crossing(sides, name)
    if share < _CROSSING:
        return []
    rows = spread_rows(sides.train.height, _MOST_ROWS)
    named = bool(name_tokens(name) & GROUP_NAMES)
    two = sides.train.select(name, sides.target)
    groups, told = _told(two[rows], sides, name, named)
    looks_like_one = groups >= _FEWEST_UNNAMED and TELLS <= told <= _GIVES_AWAY
    if not named and (not looks_like_one or _is_quantity(sides, name)):
        return []
    message = (
        f"{share:.1%} of the held-out rows have a {name!r} that is also in training, and "
        f"{max(told, 0.0):.1%} of the target's variance is between groups"
    )
    return [_tested("suspicious", share, message, name, count)]


def _is_quantity(sides: Sides, name: str) -> bool:
    """Does the order of a column explain much of the target? The order of names does not."""
    if not sides.train[name].dtype.is_numeric():
        return False
    target = sides.train[sides.target]
    if sides.is_classes:
        target = target == target.min()
    both = pl.DataFrame({"known": sides.train[name], "target": target}).drop_nulls()
    ranks = np.stack([both[column].rank("average").to_numpy() for column in both.columns])
    return abs(float(np.corrcoef(ranks)[0, 1])) > _QUANTITY


def _tested(verdict: Verdict, share: float, message: str, name: str, count: int) -> AuditResult:
    return AuditResult(
        "same groups",
        verdict,
        share,
        message,
        "group_overlap",
        count,
        columns=(name,),
        fix=f"to generalise to new groups: data.split: {{kind: group, column: {name}}}",
    )


def _crossing(sides: Sides, name: str) -> tuple[float, int]:
    """Share and number of held-out rows whose value is also in training."""
    held_out = sides.held_out[name]
    known = to_labels(sides.train[name].drop_nulls().unique()).unique()
    counts = count_values(held_out.drop_nulls())
    count = int(counts["count"].filter(to_labels(counts["value"]).is_in(known.implode())).sum())
    return count / max(1, len(held_out)), count


def _told(frame: pl.DataFrame, sides: Sides, name: str, named: bool) -> tuple[int, float]:
    """Number of groups, and the between-group share of the target's variance.

    The one-way ANOVA intraclass correlation for unequal groups, (B - W) / (B + (n - 1) W) with the
    mean squares B between and W within groups and the adjusted mean size n (Donner 1986,
    International Statistical Review 54, section 2): unbiased for small groups. For a numeric column
    without a group name the trend is removed first: the mean over each run of about five
    consecutive values.
    """
    present = frame.filter(frame[name].is_not_null())
    codes = to_labels(present[name]).rank("dense").cast(pl.Int64).to_numpy() - 1
    values = as_numbers(present[sides.target])
    sizes = np.bincount(codes).astype(np.float64)
    if present[name].dtype.is_numeric() and not named:
        ranks = present[name].rank("ordinal").cast(pl.Int64).to_numpy() - 1
        bins = max(1, len(sizes) // _VALUES_PER_BIN)
        values = values - mean_of_all(ranks * bins // len(ranks), values)
    groups, rows = len(sizes), len(codes)
    if groups < 2 or rows <= groups:
        return groups, 0.0
    means = mean_of_all(codes, values)
    within = float(((values - means) ** 2).sum()) / (rows - groups)
    between = float(((means - values.mean(axis=0)) ** 2).sum()) / (groups - 1)
    size = (rows - float((sizes**2).sum()) / rows) / (groups - 1)
    total = between + (size - 1) * within
    return groups, (between - within) / total if total > 0 else 0.0


RESEMBLE = 0.3
"""Lag-1 autocorrelation of the target from which rows in file order are dependent. Shuffled tables
are within 0.03 of 0; elec2 is at 0.7, hourly series above 0.9."""

_FEWEST_MOMENTS = 10
_FEWEST_CHANGES = 200
_MOST_NAMED = 5
_QUARTER, _DAY_APART, _MOST_OFFSETS = 900, 14 * 3600, 4
_FILE = ""
"""Name of the file order; other orders are named by their column."""


def future_rows(sides: Sides) -> list[AuditResult]:
    """Time split: training rows later than a held-out row. Other splits: serial dependence of rows
    in time or file order."""
    split = sides.split
    if isinstance(split, TimeSplit):
        first = sides.held_out[split.moment].min()
        late = int((sides.train[split.moment] >= first).sum())
        rows = many(late, "training row is", "training rows are")
        message = f"{rows} not older than the oldest held-out row"
        verdict: Verdict = "leak" if late else "clean"
        named = tuple(name for _, name in split_columns(split))
        return [
            AuditResult(
                "future rows", verdict, float(late), message, "future_rows", late, (), named
            )
        ]
    if isinstance(split, GroupSplit | StratifiedGroupSplit) or sides.given:
        message = "not checked: the split is not by rows"
        return [AuditResult("future rows", "clean", 0.0, message, "future_rows")]
    return [_resembling(sides)]


def _resembling(sides: Sides) -> AuditResult:
    """Lag-1 autocorrelation of the target in the order where it is highest: file order, or that of
    a date column. Very many rows are cut to the middle of the order."""
    together = _together(sides)
    orders = {_FILE: np.argsort(_places(sides), kind="stable")}
    for name in _dates(together):
        orders[name] = together[name].rank("ordinal").arg_sort().to_numpy().astype(np.int64)
    target = together[sides.target]
    found = {name: resemblance(as_numbers(target[_middle(rows)])) for name, rows in orders.items()}
    dates = [order for order in found if order != _FILE and found[order] >= RESEMBLE]
    # A date is preferred to file order, which may be sorted by anything.
    name = max(dates or found, key=lambda order: found[order])
    number = found[name]
    columns = () if name == _FILE else (name,)
    shown = "the file" if name == _FILE else repr(name)
    message = f"in the order of {shown} the target has a lag-1 autocorrelation of {number:.2f}"
    if number < RESEMBLE:
        return AuditResult("future rows", "clean", number, message, "future_rows", 0, (), columns)
    return AuditResult(
        "future rows",
        "suspicious",
        number,
        message + ", and the neighbours of held-out rows are in training",
        "future_rows",
        sides.train.height,
        (),
        columns,
        fix="to forecast: data.split: {kind: time, column: ...}; for related rows: "
        "{kind: group, column: ...}",
    )


def _middle(rows: Integers) -> Integers:
    start = max(0, len(rows) - _MOST_ROWS) // 2
    return rows[start : start + _MOST_ROWS]


def later_times(sides: Sides) -> list[AuditResult]:
    """Features with timestamps later than the row's own time."""
    split = sides.split
    if not isinstance(split, TimeSplit) or not sides.train[split.moment].dtype.is_temporal():
        message = "not checked: the contract names no time column"
        return [AuditResult("later times", "clean", 0.0, message)]
    found: list[AuditResult] = []
    known = sides.train[split.moment]
    for name in sides.of_kind("datetime"):
        if name == split.column:
            continue
        late = int((sides.train[name] > known).sum())
        if late and not _is_local_time(sides.train[name], known):
            share = late / sides.train.height
            message = f"{name!r} is later than {split.column!r} in {share:.1%} of the training rows"
            fix = f"add {name} to data.exclude"
            found.append(
                AuditResult("later times", "leak", share, message, "leak", late, (), (name,), fix)
            )
    if found:
        return found
    message = f"no date is later than {split.column!r} of its row"
    return [AuditResult("later times", "clean", 0.0, message)]


def _is_local_time(times: pl.Series, known: pl.Series) -> bool:
    """Is one date the other in another time zone? The offsets are then few multiples of a quarter
    of an hour, up to 14 hours."""
    offsets = (times - known).drop_nulls().dt.total_seconds().unique()
    quarters = bool((offsets % _QUARTER == 0).all())
    return quarters and len(offsets) <= _MOST_OFFSETS and bool((offsets.abs() <= _DAY_APART).all())


def _together(sides: Sides) -> pl.DataFrame:
    held_out = set(sides.held_out.columns)
    names = [name for name in sides.train.columns if name in held_out]
    return pl.concat([sides.train.select(names), sides.held_out.select(names)])


def _places(sides: Sides) -> Integers:
    return np.concatenate([sides.train_places, sides.places])


def _dates(frame: pl.DataFrame) -> list[str]:
    """Date columns that could order the rows, except dates of birth."""
    found = [
        series.name
        for series in frame.get_columns()
        if series.dtype == pl.Datetime("us")
        and not series.null_count()
        and not names_birth(series.name)
        and series.n_unique() >= _FEWEST_MOMENTS
    ]
    return found[:_MOST_NAMED]


def resemblance(values: Floats) -> float:
    """Mean lag-1 autocorrelation of the target's columns [N, C]; 0 for rows sorted by the target,
    where it is meaningless."""
    if len(values) < _FEWEST_MOMENTS:
        return 0.0
    changes = int((values[1:] != values[:-1]).any(axis=1).sum())
    steps = np.diff(values[:, 0])
    if (
        changes < min(_FEWEST_CHANGES, 2 * values.shape[1])
        or (steps >= 0).all()
        or (steps <= 0).all()
    ):
        return 0.0
    centered = values - values.mean(axis=0)
    spread = (centered**2).sum()
    return float((centered[1:] * centered[:-1]).sum() / spread) if spread else 0.0
