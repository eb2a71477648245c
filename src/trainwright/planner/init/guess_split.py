"""Split of a first contract: by group or time where rows depend on each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.reading.yaml_reader import Plain, read_yaml
from trainwright.contract.sections.data.split import MOMENT_COLUMN, RandomSplit, TimeSplit
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import Sides
from trainwright.data.audit.row_overlap import repeats_of, verdict_of_share
from trainwright.data.audit.split_leaks import RESEMBLE, resemblance, same_groups
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.columns.column_kinds import ColumnType, name_tokens, names_birth
from trainwright.data.read_table import RawTable
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.split.random_split import TRAIN, Shares
from trainwright.data.split.splits import split_rows
from trainwright.data.statistics.dependence import as_numbers
from trainwright.evaluation.intervals.bootstrap import LEAST_UNITS
from trainwright.planner.init.yaml_lines import flow, scalar

PEOPLE = frozenset(
    {"subject", "patient", "user", "customer", "client", "person", "people", "student", "employee"}
    | {"member", "participant", "respondent", "player", "driver", "household", "family", "session"}
    | {"rater", "reviewer", "author", "account", "owner", "host", "worker", "teacher", "doctor"}
    | {"physician", "child", "animal", "mouse", "speaker", "writer", "passenger", "visitor"}
)
PLACES = frozenset(
    {"shop", "store", "station", "machine", "device", "sensor", "site", "school", "hospital"}
    | {"clinic", "farm", "vehicle", "building", "house", "plot", "well", "group"}
)
"""Words in a column's name that say whose or where, so that rows with one value belong together."""

TIME_PARTS = (
    frozenset({"year", "yr"}),
    frozenset({"quarter", "qtr"}),
    frozenset({"month", "mnth", "mon"}),
    frozenset({"week", "wk"}),
    frozenset({"day", "dd", "date"}),
    frozenset({"hour", "hr", "hh"}),
    frozenset({"minute", "min", "mm"}),
    frozenset({"second", "sec", "ss"}),
)
"""How the parts of a time are called, the largest first."""

_LARGEST = (2200, 4, 12, 53, 366, 24, 60, 61)
_FEWEST_GROUPS, _FEWEST_NUMBERED, _FEWEST_UNNAMED = 10, 50, 100
_ROWS_PER_GROUP, _ROWS_PER_NUMBER = 2, 5
_FEWEST_MOMENTS = 10
_MICROSECONDS_A_YEAR = 365.25 * 24 * 3600 * 1e6
_LIFETIME = 40
"""Dates over so many years in no order are more likely birthdays than times of rows."""
_FEW_ROWS, _FOLDS = 1_000, 5
_FEW_OF_A_CLASS = 100
_MOST_CELLS, _COLUMNS_OF_A_TEXT = 10_000_000, 300
"""Rows times columns times classes up to which it is cheap enough to train once a fold."""
_MOST_OF_A_NAME = 40
_PARTS = 3
_MOST_ROWS = 50_000
_FEWEST_ROWS, _FEWEST_ROUNDS = 50, 5
_RISES, _EVEN = 0.75, 0.1


@final
@dataclass(frozen=True, slots=True)
class Division:
    """A split's YAML without its braces, its column (empty: none), and the reason."""

    yaml: str
    column: str
    reason: str

    @property
    def section(self) -> Plain:
        """The split in contract syntax."""
        return read_yaml(f"{{{self.yaml}}}".encode(), "split").value

    @property
    def is_time(self) -> bool:
        """Are the newest rows the test part?"""
        return self.yaml.startswith("kind: time")


def find_divisions(raw: RawTable, target: str) -> list[Division]:
    """Possible splits, the most suitable first; the last ones always work."""
    frame = raw.frames["train"]
    usable = [column for column in raw.columns if not column.reason.startswith("listed")]
    people = _named_groups(usable, frame, PEOPLE)
    places = _named_groups(usable, frame, PLACES)
    dates = _by_date(usable, frame, target)
    parts = _by_parts(usable, frame, target)
    found = [*people, *dates, *parts, *places]
    if not found:
        found = [*_unnamed_group(raw, frame, target), *_by_order(raw, frame, target)]
    found += [*_by_content(raw, frame, target), _by_chance(raw, frame, target, usable)]
    return [form for one in found for form in dict.fromkeys((_in_folds(one, raw), one))]


def _in_folds(division: Division, raw: RawTable) -> Division:
    """The same with folds if the rows are few, or those of a class that is judged."""
    classes = raw.facts.target.classes
    if classes and sum(rows >= _FOLDS for rows in classes.values()) < 2:
        return replace(division, reason=f"{division.reason}; {_undecidable(classes)}")
    if raw.facts.given or not (few := _few_rows(raw)):
        return division
    then = "the origin rolls" if division.is_time else "each is tested once"
    reason = f"{division.reason}; {few} are few, so {then}"
    yaml = division.yaml
    rare = sum(rows < _FOLDS for rows in classes.values())
    if yaml == "kind: stratified" and 0 < rare <= len(classes) - 2:
        yaml += ", rare: train"
        reason += f"; {_too_rare(rare)}"
    return Division(f"{yaml}, folds: {_FOLDS}", division.column, reason)


def _few_rows(raw: RawTable) -> str:
    """The rows that are too few for one test part, as `809 rows`; empty where they are enough."""
    facts = raw.facts
    if facts.rows < _FEW_ROWS:
        return f"{facts.rows:,} rows"
    judged = {name: rows for name, rows in facts.target.classes.items() if rows >= _FOLDS}
    if not judged:
        return ""
    rarest = min(judged, key=judged.__getitem__)
    share = RandomSplit(kind="random").test
    texts = sum(column.kind == "text" for column in raw.columns)
    outputs = len(facts.target.classes) if len(facts.target.classes) > 2 else 1
    cells = facts.rows * (len(raw.columns) + texts * _COLUMNS_OF_A_TEXT) * outputs
    if judged[rarest] * share >= _FEW_OF_A_CLASS or cells > _MOST_CELLS:
        return ""
    return f"{judged[rarest]:,} rows of class {rarest[:_MOST_OF_A_NAME]!r}"


def _undecidable(classes: Mapping[str, int]) -> str:
    rarest = min(classes, key=classes.__getitem__)
    rows = f"{many(classes[rarest], 'row')} of class {rarest[:_MOST_OF_A_NAME]!r}"
    return f"a clause on {rows} cannot be decided: an interval needs {LEAST_UNITS} that are tested"


def _too_rare(classes: int) -> str:
    which = many(classes, "class has", "classes have")
    return f"{which} too few rows to be judged: they train and are never judged"


def _by_content(raw: RawTable, frame: pl.DataFrame, target: str) -> list[Division]:
    """Split by content, if the audit would call the duplicates that a random split holds out a
    leak: of fewer it keeps equal class shares."""
    split = RandomSplit(kind="random")
    parts = split_rows(frame, target, split, Shares.of(split, raw.facts.given), 0)
    held = frame.filter(pl.Series(parts != TRAIN))
    repeats = repeats_of(frame.filter(pl.Series(parts == TRAIN)), held, raw.columns, target)
    if verdict_of_share(repeats.copied / max(1, held.height), repeats.copied) != "leak":
        return []
    copies = int(repeats.equal.sum())
    reason = (
        f"{copies:,} of {held.height:,} held-out rows would repeat a training row: equal rows stay "
        "on one side"
    )
    return [Division('kind: random, key: "*"', "", reason)]


def _by_chance(
    raw: RawTable, frame: pl.DataFrame, target: str, usable: list[ColumnType]
) -> Division:
    said = "no column says a group or a time"
    for column in _dates(usable, frame):
        values = frame[column.name]
        if (years := _years(values)) >= _LIFETIME and not values.is_sorted():
            said += (
                f"; {column.name!r} spreads over {years:.0f} years in no order and is a feature: "
                f"{{kind: time, column: {scalar(column.name)}}} if it says when a row was known"
            )
    alike = _alike(frame, target, np.arange(frame.height))
    if alike >= RESEMBLE:
        said += (
            f"; the target correlates {alike:.2f} with that of the row before: if the file stands "
            "in the order of time, {kind: time, order: file}"
        )
    if raw.facts.target.kind == "numbers":
        return Division("kind: random", "", said)
    rare = [name for name, rows in raw.facts.target.classes.items() if rows < _PARTS]
    if rare:
        reason = f"{said}; {_too_rare(len(rare))}"
        return Division("kind: stratified, rare: train", "", reason)
    return Division("kind: stratified", "", f"{said}; equal class shares")


def _named_groups(
    columns: list[ColumnType], frame: pl.DataFrame, words: frozenset[str]
) -> list[Division]:
    found = []
    for column in columns:
        tokens = name_tokens(column.name)
        named, numbered = bool(tokens & words), words is PLACES and "id" in tokens
        if not (named or numbered) or not _names_groups(column, frame, few=named):
            continue
        rows = frame.height / column.distinct
        reason = (
            f"{column.distinct:,} groups of {rows:.0f} rows: a group's rows resemble each other"
        )
        found.append(Division(f"kind: group, column: {scalar(column.name)}", column.name, reason))
    return found


def _names_groups(column: ColumnType, frame: pl.DataFrame, *, few: bool) -> bool:
    values = frame[column.name]
    present = len(values) - values.null_count()
    fewest, rows = (
        (_FEWEST_GROUPS, _ROWS_PER_GROUP) if few else (_FEWEST_NUMBERED, _ROWS_PER_NUMBER)
    )
    distinct = values.drop_nulls().n_unique()
    if distinct < fewest or distinct * rows > present:
        return False
    if values.dtype.is_numeric():
        numbers = values.drop_nulls()
        return bool((numbers == numbers.floor()).all())
    return values.dtype == pl.String


def _by_date(columns: list[ColumnType], frame: pl.DataFrame, target: str) -> list[Division]:
    """Split by a date, if the file is sorted by it or the target is autocorrelated along it."""
    for column in _dates(columns, frame):
        values = frame[column.name]
        name = f"kind: time, column: {scalar(column.name)}"
        if values.is_sorted():
            reason = "the file is sorted by this date: the test is the future"
            return [Division(name, column.name, reason)]
        if _years(values) >= _LIFETIME:
            continue
        order = values.rank("ordinal").arg_sort().to_numpy().astype(np.int64)
        alike = _alike(frame, target, order)
        if alike >= RESEMBLE:
            return [Division(name, column.name, _resembling(alike, "of the date before"))]
    return []


def _dates(columns: list[ColumnType], frame: pl.DataFrame) -> Iterator[ColumnType]:
    """The columns that may say when a row was known: dates without a gap, and none of birth."""
    for column in columns:
        values = frame[column.name]
        if values.dtype != pl.Datetime("us") or values.null_count() or names_birth(column.name):
            continue
        if values.n_unique() >= _FEWEST_MOMENTS:
            yield column


def _years(values: pl.Series) -> float:
    """From the oldest date to the newest."""
    moments = values.to_physical().to_numpy()
    return float(moments.max() - moments.min()) / _MICROSECONDS_A_YEAR


def _by_parts(columns: list[ColumnType], frame: pl.DataFrame, target: str) -> list[Division]:
    """Split by columns that form a timestamp together: year, month, day and hour."""
    parts = []
    for words, largest in zip(TIME_PARTS, _LARGEST, strict=True):
        named = [
            column.name
            for column in columns
            if name_tokens(column.name) & words
            and not names_birth(column.name)
            and _is_part(frame[column.name], largest)
        ]
        parts += named[:1]
    years = bool(parts) and bool(name_tokens(parts[0]) & TIME_PARTS[0])
    if len(parts) < 2 or len(set(parts)) < len(parts):
        return []
    split = TimeSplit(kind="time", parts=tuple(parts))
    moments = with_moments({"train": frame}, split, IN_MEMORY)["train"][MOMENT_COLUMN]
    written = f"kind: time, parts: {flow(parts)}"
    shown = ", ".join(parts)
    if moments.is_sorted() and moments.n_unique() >= _FEWEST_MOMENTS:
        reason = f"the file is sorted by {shown}, a time together: the test is the future"
        return [Division(written, "", reason)]
    alike = _alike(frame, target, moments.arg_sort().to_numpy().astype(np.int64))
    if years and alike >= RESEMBLE:
        return [Division(written, "", _resembling(alike, f"before in {shown}"))]
    return []


def _is_part(values: pl.Series, largest: int) -> bool:
    if values.dtype == pl.Datetime("us"):
        return not values.null_count()
    if not values.dtype.is_numeric() or values.null_count():
        return False
    least, most = float(values.to_numpy().min()), float(values.to_numpy().max())
    return bool((values == values.floor()).all()) and least >= 0 and least < most <= largest


def _unnamed_group(raw: RawTable, frame: pl.DataFrame, target: str) -> list[Division]:
    """Split by the column that the audit identifies as a group and that explains most of the
    target's variance."""
    places = np.arange(frame.height)
    sides = Sides(
        train=frame,
        held_out=frame,
        train_places=places,
        places=places,
        columns=raw.columns,
        target=target,
        split=RandomSplit(kind="random"),
        given=False,
    )
    found = [
        one
        for one in same_groups(sides)
        if one.verdict != "clean" and _numbers_groups(frame[one.columns[0]])
    ]
    return [
        Division(
            f"kind: group, column: {scalar(one.columns[0])}",
            one.columns[0],
            f"{frame[one.columns[0]].n_unique():,} values that repeat, and the target differs "
            "between them: the score is for new ones; take random or stratified if the model "
            "meets these again",
        )
        for one in found[:1]
    ]


def _numbers_groups(values: pl.Series) -> bool:
    """Do many numbers occur in many rows each? Repeated words may as well be informative
    categories, which a model meets again."""
    distinct = values.n_unique()
    many_rows = distinct * _ROWS_PER_NUMBER <= len(values)
    return values.dtype.is_numeric() and distinct >= _FEWEST_UNNAMED and many_rows


def _by_order(raw: RawTable, frame: pl.DataFrame, target: str) -> list[Division]:
    """Split by file order, if rows resemble the previous ones and a column runs like a clock: order
    alone proves nothing, because a file may be sorted by anything."""
    alike = _alike(frame, target, np.arange(frame.height))
    clocks = [column.name for column in raw.columns if _is_clock(frame[column.name])]
    if alike < RESEMBLE or not clocks:
        return []
    reason = f"{clocks[0]!r} runs like a clock, and " + _resembling(alike, "of the row before")
    return [Division("kind: time, order: file", "", reason)]


def _is_clock(values: pl.Series) -> bool:
    """Do numbers increase by a constant step from row to row, and start over repeatedly?"""
    if not values.dtype.is_numeric() or values.null_count() or len(values) < _FEWEST_ROWS:
        return False
    steps = np.diff(values.cast(pl.Float64).to_numpy()[:_MOST_ROWS])
    rising = steps[steps > 0]
    resets = len(steps) - len(rising)
    if resets < _FEWEST_ROUNDS or len(rising) < _RISES * len(steps):
        return False
    usual = float(np.median(rising))
    return bool((np.abs(rising - usual) <= _EVEN * usual).mean() >= _RISES)


def _alike(frame: pl.DataFrame, target: str, order: Integers) -> float:
    start = max(0, len(order) - _MOST_ROWS) // 2
    return resemblance(as_numbers(frame[target][order[start : start + _MOST_ROWS]]))


def _resembling(alike: float, what: str) -> str:
    return f"the target correlates {alike:.2f} with that {what}: the test is what comes later"
