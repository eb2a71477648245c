"""Structure of the rows of a table: a series, a panel, groups, or none.

A name alone proves nothing: `school` may hold years of schooling, `plot` numbers that start again
at each site. A column is the unit that several rows share only if the rows say so too: its rows lie
together in the file, or it fixes a coarser column (the sex of a person, the region of a firm).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.split import MOMENT_COLUMN, TimeSplit
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.columns.column_kinds import name_tokens, names_birth
from trainwright.data.split.hidden_columns import with_moments

UNIT_WORDS = frozenset(
    {"subject", "subj", "patient", "user", "customer", "client", "person", "people", "pers", "id"}
    | {"student", "pupil", "employee", "worker", "member", "participant", "respondent", "resp"}
    | {"player", "driver", "household", "hh", "family", "session", "rater", "reviewer", "author"}
    | {"account", "owner", "host", "teacher", "doctor", "physician", "child", "mother", "speaker"}
    | {"writer", "passenger", "visitor", "individual", "indiv", "case", "judge", "operator", "uid"}
    | {"animal", "mouse", "rat", "dog", "cow", "pig", "sheep", "bird", "fish", "monkey", "tree"}
    | {"plant", "leaf", "litter", "pair", "couple", "twin", "cluster", "psu", "batch", "lot"}
    | {"sample", "specimen", "shop", "store", "station", "machine", "device", "sensor", "site"}
    | {"school", "classroom", "hospital", "clinic", "center", "centre", "farm", "vehicle"}
    | {"car", "building", "house", "plot", "well", "pond", "tank", "pot", "firm", "company", "bank"}
    | {"ticker", "symbol", "permno", "gvkey", "team", "club", "village", "lab", "laboratory"}
    | {"contestant", "candidate", "competitor", "athlete", "applicant", "voter", "resident"}
    | {"tenant", "vendor", "supplier", "agent", "nurse", "pilot", "inspector", "coach"}
    | {"group", "movie", "film", "song", "artist", "airport", "route", "ident"}
)
"""Words in a column's name that say whose row it is."""

_PLACES = frozenset(
    {"county", "district", "city", "town", "state", "province", "country", "nation", "region"}
    | {"location", "area"}
)
"""Words of geography. Survey rows that are sorted by state are no groups for that alone."""

_NUMBERS = frozenset({"code", "nr", "num", "no", "number", "key"})
"""Words that number something: persons (`nr`), or the levels of a score (`rad_num`)."""

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
"""Names of the parts of a time, the largest first."""

_LARGEST = (2200, 4, 12, 53, 366, 24, 60, 61)
_YEARS = (1000, 2200)
_DATES = frozenset({"date", "dates"})
_TIME_WORDS = _DATES | {"time", "t", "period", "wave", "visit", "occasion", "trend"}
_TIME_WORDS = _TIME_WORDS.union(*TIME_PARTS)
_ROW_NUMBERS = frozenset({"rownames", "rownumber", "row", "index", "obs", "unnamed", "x", ""})
_ID_ENDING = re.compile(r"(?<!pa)(?<!val)(?<!ac)(?<!gr)(?<!b)(?<!m)(?<!flu)(?<!sol)(?<!ster)id$")
_NUMBER_ENDING = re.compile(r"code$|num$")
"""Endings of a name without a separator: `patid`, `dcode`."""

_FEWEST_MOMENTS = 10
_FEWEST_UNITS, _FEWEST_UNNAMED = 5, 10
_TOGETHER = 1.2
_MANY, _ROWS_OF_MANY = 20, 4
_MOST_OF_FEW, _MOST_OF_MANY = 1.25, 4
_EVEN, _MOSTLY_EVEN = 0.02, 0.9
_CHANCE = math.log(1e-6)
_FEWEST_COINCIDENCES, _FEWEST_COINCIDENCES_UNNAMED = 3.0, 20.0
_FEW_COINCIDE = 0.02


@final
@dataclass(frozen=True, slots=True)
class RowStructure:
    """What the rows share: `entity` names the unit (empty in a series), `clock` the columns of the
    time, the largest unit first (none in groups without one). `is_calendar`: the clock counts
    calendar time, not time since each unit's own start."""

    kind: Literal["series", "panel", "group"]
    entity: str
    clock: tuple[str, ...]
    is_calendar: bool
    reason: str

    @property
    def is_series(self) -> bool:
        """Is the newest the future of the rest, for one unit or for all of them alike?"""
        return self.kind == "series" or (self.kind == "panel" and self.is_calendar)


class _Column:
    """One column as dense codes, with the statistics that several rules ask."""

    def __init__(self, name: str, values: pl.Series, position: int) -> None:
        self.name = name
        self.values = values
        self.position = position

    @cached_property
    def codes(self) -> Integers:
        return self.values.rank("dense").fill_null(0).cast(pl.Int64).to_numpy()

    @cached_property
    def distinct(self) -> int:
        return int(self.values.n_unique())

    @cached_property
    def runs(self) -> int:
        """Maximal blocks of consecutive rows with one value."""
        return int(np.count_nonzero(np.diff(self.codes))) + 1

    @cached_property
    def is_whole(self) -> bool:
        if not self.values.dtype.is_numeric():
            return False
        present = self.values.drop_nulls()
        return bool((present == present.floor()).all())

    @property
    def repeats(self) -> bool:
        return self.distinct * 3 <= len(self.values) * 2

    @property
    def lies_together(self) -> bool:
        return self.repeats and self.runs <= _TOGETHER * self.distinct

    @cached_property
    def named(self) -> Literal["unit", "place", "number", ""]:
        """What the column's name says that it identifies."""
        words = name_tokens(self.name)
        if words & _PLACES:
            return "place"
        if words & UNIT_WORDS or any(_ID_ENDING.search(word) for word in words):
            return "unit"
        if words & _NUMBERS or any(_NUMBER_ENDING.search(word) for word in words):
            return "number"
        return ""

    @cached_property
    def sizes(self) -> Integers:
        """Rows of each value."""
        counts = np.bincount(self.codes)
        return counts[counts > 0]

    @property
    def is_even(self) -> bool:
        """Several rows of each value and none with many more than the others, unlike a count: of
        few values as in a balanced design, of many as in a log."""
        largest, smallest = self.sizes.max() / self.sizes.mean(), self.sizes.min()
        if len(self.sizes) < _MANY:
            return bool(largest <= _MOST_OF_FEW and smallest > 1)
        several = len(self.values) >= _ROWS_OF_MANY * len(self.sizes)
        return bool(largest <= _MOST_OF_MANY) and (several or smallest == self.sizes.max())


def find_structures(frame: pl.DataFrame, target: str) -> list[RowStructure]:
    """Structures of typed rows in file order, the most convincing first; none where no column says
    one. Columns excluded from the features are considered too: an identifier is the best sign of a
    group.
    """
    columns = [
        _Column(name, frame[name], position)
        for position, name in enumerate(frame.columns)
        if not name.startswith("\uffff") and frame[name].dtype != pl.Null
    ]
    others = [column for column in columns if column.name != target]
    clocks = list(_find_clocks(frame, others))
    series = next(_find_series(clocks), None)
    used = {name for clock in clocks for name in clock.names}
    units = [
        column
        for column in others
        if column.name not in used and _could_be_unit(column) and not _numbers_rows(column)
    ]
    levels = [column for column in units if column.values.dtype == pl.String]
    panels = _find_panels(units, clocks, levels)
    for unit in units:
        if panels and unit.name == panels[0].entity and target in _fixed_by(unit, columns):
            # The past of a unit would show its target.
            reason = f"each {unit.name!r} has one value of the target"
            return [RowStructure("group", unit.name, (), False, reason)]
    return (panels[:1] or ([series] if series else [])) + _find_groups(units, columns)


@final
@dataclass(frozen=True, slots=True)
class _Clock:
    """Columns that are a time together, as one column of codes in temporal order."""

    names: tuple[str, ...]
    values: _Column
    is_calendar: bool


def _find_clocks(frame: pl.DataFrame, columns: Sequence[_Column]) -> Iterator[_Clock]:
    """Dates, times in parts, years, and whole numbers named like a time; calendar times first."""
    free = [column for column in columns if not names_birth(column.name)]
    dates = [column for column in free if column.values.dtype == pl.Datetime("us")]
    present = [column for column in dates if not column.values.null_count()]
    # Of the start and the end of a poll, the end is when its result was known.
    for column in sorted(present, key=lambda date: -date.values.to_physical().to_numpy().mean()):
        yield _Clock((column.name,), column, is_calendar=True)
    if len(parts := _find_parts(free)) > 1:
        split = TimeSplit(kind="time", parts=parts)
        moments = with_moments({"train": frame}, split, IN_MEMORY)["train"][MOMENT_COLUMN]
        has_year = bool(name_tokens(parts[0]) & TIME_PARTS[0])
        yield _Clock(parts, _Column(", ".join(parts), moments, 0), is_calendar=has_year)
    for column in free:
        if _is_year(column):
            yield _Clock((column.name,), column, is_calendar=True)
    for column in free:
        if _time_words(column.name) and _is_numeric(column) and not _is_year(column):
            yield _Clock((column.name,), column, is_calendar=False)


def _time_words(name: str) -> frozenset[str]:
    """The words of a name that say time; `t1` is the first of several quantities."""
    words = name_tokens(name)
    return words & _TIME_WORDS if words != {"t", "1"} else frozenset()


def _is_numeric(column: _Column) -> bool:
    return column.values.dtype.is_numeric() and not column.values.null_count()


def _is_year(column: _Column) -> bool:
    """Is a column named like a year or date, or like a time with the values of years?"""
    words = _time_words(column.name)
    if not words or not _is_numeric(column):
        return False
    if words & _DATES:
        return column.is_whole
    low, high = float(column.values.to_numpy().min()), float(column.values.to_numpy().max())
    if _YEARS[0] <= low and high <= _YEARS[1] and high - low >= 1:
        return bool(words & TIME_PARTS[0]) or column.distinct == len(column.values)
    return bool(words & TIME_PARTS[0]) and column.is_whole and low > 30 and high < 100


def time_parts(frame: pl.DataFrame) -> tuple[str, ...]:
    """Columns of typed rows that are a time together, the year first; none if there is none."""
    columns = [_Column(name, frame[name], position) for position, name in enumerate(frame.columns)]
    parts = _find_parts([column for column in columns if not names_birth(column.name)])
    return parts if parts and name_tokens(parts[0]) & TIME_PARTS[0] else ()


def _find_parts(columns: Sequence[_Column]) -> tuple[str, ...]:
    """Parts of one time, the largest first: `MonthSold` goes with `YearSold`, not `YearBuilt`."""
    words = frozenset().union(*TIME_PARTS)
    of_times: dict[frozenset[str], list[_Column]] = {}
    for column in columns:
        if (tokens := name_tokens(column.name)) & words:
            of_times.setdefault(tokens - words, []).append(column)
    longest: tuple[str, ...] = ()
    for parts_of_time in of_times.values():
        parts: list[str] = []
        for part, largest in zip(TIME_PARTS, _LARGEST, strict=True):
            named = [
                column.name
                for column in parts_of_time
                if name_tokens(column.name) & part and _is_part(column, largest)
            ]
            parts += [name for name in named[:1] if name not in parts]
        longest = max(longest, tuple(parts), key=len)
    return longest


def _is_part(column: _Column, largest: int) -> bool:
    if column.values.dtype == pl.Datetime("us"):
        return not column.values.null_count()
    if not _is_numeric(column) or not column.is_whole:
        return False
    numbers = column.values.to_numpy()
    low, high = float(numbers.min()), float(numbers.max())
    varies = low < high or largest == _LARGEST[0]
    return varies and low >= 0 and high <= largest


def _find_series(clocks: Sequence[_Clock]) -> Iterator[RowStructure]:
    for clock in clocks:
        steps = np.diff(clock.values.codes)
        if not ((steps >= 0).all() or (steps <= 0).all()):
            continue
        if clock.values.distinct < _FEWEST_MOMENTS:
            continue
        unique = clock.values.distinct == len(steps) + 1
        if not unique and _has_two_digits(clock):
            continue
        if not clock.is_calendar and not (unique and _is_regular(clock.values)):
            continue
        direction = "rises" if steps[steps != 0][0] > 0 else "falls"
        names = ", ".join(map(repr, clock.names))
        reason = f"{names} {direction} through the file"
        yield RowStructure("series", "", clock.names, clock.is_calendar, reason)


def _has_two_digits(clock: _Clock) -> bool:
    """Years such as 78: those of many rows may be a property, as of cars."""
    values = clock.values.values
    return values.dtype.is_numeric() and float(values.to_numpy().max()) < _YEARS[0]


def _is_regular(column: _Column) -> bool:
    """Are the values evenly spaced, except for gaps of whole steps?"""
    steps = np.abs(np.diff(column.values.cast(pl.Float64).to_numpy()))
    usual = float(np.median(steps))
    if not usual:
        return False
    multiples = steps / usual
    whole = np.abs(multiples - np.round(multiples)) <= _EVEN
    return bool(whole.all()) and float((np.round(multiples) == 1).mean()) >= _MOSTLY_EVEN


def _could_be_unit(column: _Column) -> bool:
    """Words or whole numbers that repeat."""
    if column.values.dtype != pl.String and not column.is_whole:
        return False
    return column.repeats and column.distinct >= 2


def _numbers_rows(column: _Column) -> bool:
    return column.name.lower() in _ROW_NUMBERS or column.distinct == len(column.values)


def _find_panels(
    units: Sequence[_Column], clocks: Sequence[_Clock], levels: Sequence[_Column]
) -> list[RowStructure]:
    """Units and clocks that name the rows together, although chance would let them coincide.

    A unit of that name may have several rows at each time, one for each of the `levels` of another
    column: the cases of each disease in a state and a year.
    """
    found = []
    for clock in clocks:
        for unit in units:
            if unit.distinct < 3 or clock.values.distinct < 2:
                continue
            if not clock.is_calendar and unit.distinct < _FEWEST_UNITS:
                continue
            if not (unit.named or unit.lies_together):
                continue
            fewest = _FEWEST_COINCIDENCES if unit.named else _FEWEST_COINCIDENCES_UNNAMED
            keys = [[unit, clock.values]]
            if unit.named and clock.is_calendar:
                keys += [[unit, clock.values, level] for level in levels if level is not unit]
            key = next((key for key in keys if _name_rows(key, fewest)), None)
            if key is None:
                continue
            names = " and ".join(repr(name) for name in (*(c.name for c in key[2:]), *clock.names))
            reason = f"{unit.name!r} and {names} name each row: {unit.distinct:,} units over time"
            found.append(RowStructure("panel", unit.name, clock.names, clock.is_calendar, reason))
    return found


def _name_rows(key: Sequence[_Column], fewest: float) -> bool:
    """Do hardly any rows agree in all columns of a key, although at least `fewest` pairs of rows
    would, were the columns independent?"""
    rows = len(key[0].values)
    combined, by_chance = np.zeros(rows, dtype=np.int64), rows * (rows - 1) / 2
    for column in key:
        combined = combined * (column.distinct + 1) + column.codes
        by_chance *= float(((np.bincount(column.codes) / rows) ** 2).sum())
    agreeing = rows - len(np.unique(combined))
    return by_chance >= fewest and agreeing <= _FEW_COINCIDE * min(rows, by_chance)


def _find_groups(units: Sequence[_Column], columns: Sequence[_Column]) -> list[RowStructure]:
    """Units with several rows. Where some lie together in the file, only those: a number that does
    not, such as a plot's within its site, starts again."""
    found = []
    for unit in units:
        if unit.distinct < (_FEWEST_UNITS if unit.named == "unit" else _FEWEST_UNNAMED):
            continue
        fixed = _fixed_by(unit, columns)
        if not _is_group(unit, len(fixed)):
            continue
        if fixed:
            why = f"each has one value of {fixed[0]!r}"
        else:
            why = "they lie together in the file" if unit.lies_together else "none is much larger"
        rows = len(unit.values) / unit.distinct
        reason = f"{unit.distinct:,} groups of about {rows:.0f} rows: {why}"
        found.append((unit, len(fixed), RowStructure("group", unit.name, (), False, reason)))
    if any(unit.lies_together for unit, _, _ in found):
        found = [entry for entry in found if entry[0].lies_together]
    found.sort(key=lambda entry: (entry[0].named != "unit", -entry[1], entry[0].position))
    return [structure for _, _, structure in found]


def _is_group(unit: _Column, fixed: int) -> bool:
    """Does more than the name say that a column identifies units? `fixed` counts the coarser
    columns that it fixes."""
    match unit.named:
        case "unit":
            return unit.lies_together or fixed > 0 or unit.is_even
        case "place":
            return unit.lies_together and fixed > 0
        case "number":
            return unit.lies_together or fixed > 1
        case "":
            several_rows = unit.distinct * 2 <= len(unit.values)
            return unit.is_whole and several_rows and unit.lies_together and fixed > 1
        case _:
            assert_never(unit.named)


def _fixed_by(unit: _Column, columns: Sequence[_Column]) -> list[str]:
    """Coarser columns, or measurements, with one value in each group, although chance would vary
    them. Bins of an unordered number are no evidence: years of schooling fix the degree."""
    several = unit.sizes[unit.sizes > 1]
    if len(several) < _FEWEST_UNITS:
        return []
    sizes, groups = np.unique(several, return_counts=True)
    may_be_quantity = unit.is_whole and not unit.lies_together
    fixed = []
    for column in columns:
        finest = unit.distinct - (column.is_whole or column.values.dtype == pl.String)
        if column is unit or not 2 <= column.distinct <= finest:
            continue
        pairs = np.unique(unit.codes * (column.distinct + 1) + column.codes)
        if len(pairs) > len(unit.sizes):
            continue
        values = pairs % (column.distinct + 1)
        if may_be_quantity and np.count_nonzero(np.diff(values)) < column.distinct:
            continue
        shares = np.bincount(column.codes) / len(column.codes)
        by_chance = (shares[None, :] ** sizes[:, None]).sum(axis=1)
        if (groups * np.log(np.maximum(by_chance, 1e-300))).sum() < _CHANCE:
            fixed.append(column.name)
    return fixed


def names_rows(structures: Iterable[RowStructure]) -> frozenset[str]:
    """Columns that say whose and when a row is: they may say much of the target, and leak nothing.
    A new unit or a later time has no value that a training row has."""
    return frozenset(
        name for structure in structures for name in (structure.entity, *structure.clock) if name
    )


def explained_changes(
    frame: pl.DataFrame, structures: Sequence[RowStructure], columns: Sequence[str], target: str
) -> float:
    """R2 of a linear fit of the target's changes in time by those of the columns, or of logarithms
    by logarithms. 1 where rows are no series, or not numbers: two trends agree in their values,
    whatever they measure, and a column made from another agrees in its changes too."""
    structure = next((one for one in structures if one.is_series), None)
    names = [*columns, target]
    if structure is None or not all(frame[name].dtype.is_numeric() for name in names):
        return 1.0
    unit = [structure.entity] if structure.entity else []
    ordered = frame.sort([*unit, *structure.clock], maintain_order=True)
    levels = ordered.select(pl.col(name).cast(pl.Float64) for name in names)
    scales = [levels]
    if all((levels[name] > 0).all() for name in names):
        scales.append(levels.select(pl.all().log()))
    starts = ordered.select(pl.struct(unit).is_first_distinct())[:, 0] if unit else None
    explained = 0.0
    for scale in scales:
        changes = scale.select(pl.all().diff())
        changes = (changes.filter(~starts) if starts is not None else changes[1:]).drop_nulls()
        values = changes.to_numpy()
        values = values - values.mean(axis=0)
        fit = np.linalg.lstsq(values[:, :-1], values[:, -1], rcond=None)[0]
        left = values[:, -1] - values[:, :-1] @ fit
        total = float(values[:, -1] @ values[:, -1])
        explained = max(explained, 1 - float(left @ left) / total if total else 0.0)
    return explained
