"""Structure of the rows of a table: a series, a panel, groups, or none.

A name alone proves nothing: `school` may hold years of schooling, `plot` numbers that start again
at each site. A column is the unit that several rows share only if the rows say so too: its rows lie
together in the file, or it fixes a coarser column (the sex of a person, the region of a firm).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never, final

import numpy as np
import polars as pl

from trainwright.data.statistics.clocks import (
    RowClock,
    find_clocks,
    has_two_digits,
    is_regular,
    time_words,
)
from trainwright.data.statistics.coded_column import CodedColumn
from trainwright.data.statistics.dependence import as_numbers, resemblance

_ROW_NUMBERS = frozenset({"rownames", "rownumber", "row", "index", "obs", "unnamed", "x", ""})
_FEWEST_MOMENTS = 10
_FEWEST_UNITS, _FEWEST_UNNAMED = 5, 10
_CHANCE = math.log(1e-6)
_FEWEST_COINCIDENCES, _FEWEST_COINCIDENCES_UNNAMED = 3.0, 20.0
_FEW_COINCIDE = 0.02
_SLIPS, _MISSING = 0.02, 0.1
_MANY_PLACES, _FEW_BLOCKS = 20, 10
_HARDLY_VARIES = 0.01
_TRENDS = 0.95
"""Correlation of a target with that of the row before, from which a file without a clock trends."""

_FIRST_ROWS = 10_000
"""Most columns are seen to vary within a unit by these already."""


@final
@dataclass(frozen=True, slots=True)
class RowStructure:
    """What the rows share: `entity` names the unit (empty in a series), `clock` the columns of the
    time, the largest unit first (none in groups without one). `is_calendar`: the clock counts
    calendar time, not time since each unit's own start; `aliases` are columns one to one with the
    unit."""

    kind: Literal["series", "panel", "group"]
    entity: str
    clock: tuple[str, ...]
    is_calendar: bool
    reason: str
    aliases: tuple[str, ...] = ()

    @property
    def is_series(self) -> bool:
        """Is the newest the future of the rest, for one unit or for all of them alike?"""
        return self.kind == "series" or (self.kind == "panel" and self.is_calendar)


def find_structures(frame: pl.DataFrame, target: str) -> list[RowStructure]:
    """Structures of typed rows in file order, the most convincing first; none where no column says
    one. Columns excluded from the features are considered too: an identifier is the best sign of a
    group.
    """
    columns = [
        CodedColumn(values)
        for values in frame.get_columns()
        if not values.name.startswith("\uffff") and values.dtype != pl.Null
    ]
    others = [column for column in columns if column.name != target]
    clocks = list(find_clocks(frame, others))
    series = next(_find_series(clocks), None)
    used = {name for clock in clocks for name in clock.names}
    units = [
        column
        for column in others
        if column.name not in used and _could_be_unit(column) and not _numbers_rows(column)
    ]
    levels = [column for column in units if column.values.dtype == pl.String]
    panels = _find_panels(units, clocks, levels, others)
    for unit in units:
        if panels and unit.name == panels[0].entity and target in _fixed_by(unit, columns):
            # The past of a unit would show its target.
            reason = f"each {unit.name!r} has one value of the target"
            aliases = _aliases(unit, others)
            return [RowStructure("group", unit.name, (), False, reason, aliases)]
    return (panels[:1] or ([series] if series else [])) + _find_groups(units, columns)


def _aliases(unit: CodedColumn, columns: Sequence[CodedColumn]) -> tuple[str, ...]:
    """Other columns that name the same units."""
    same = (column for column in columns if column.distinct == unit.distinct and column is not unit)
    return tuple(
        column.name
        for column in same
        if len(np.unique(unit.codes * (column.distinct + 1) + column.codes)) == unit.distinct
    )


def _find_series(clocks: Sequence[RowClock]) -> Iterator[RowStructure]:
    for clock in clocks:
        steps = np.diff(clock.values.codes)
        most = _SLIPS * len(steps) if clock.values.values.dtype == pl.Datetime("us") else 0
        rises, falls = (steps < 0).sum() <= most, (steps > 0).sum() <= most
        if clock.values.distinct < _FEWEST_MOMENTS or not (rises or falls):
            continue
        unique = clock.values.distinct == len(steps) + 1
        if not unique and has_two_digits(clock):
            continue
        if not clock.is_calendar and not (unique and is_regular(clock.values)):
            continue
        names = ", ".join(map(repr, clock.names))
        verb = ("rises" if rises else "falls").removesuffix("s" if len(clock.names) > 1 else "")
        reason = f"{names} {verb} through the file"
        yield RowStructure("series", "", clock.names, clock.is_calendar, reason)


def _could_be_unit(column: CodedColumn) -> bool:
    """Words or whole numbers that repeat, hardly ever missing, and no part of a time."""
    if column.values.dtype != pl.String and not column.is_whole:
        return False
    if column.values.null_count() > _MISSING * len(column.values):
        return False
    if time_words(column.name) and column.named != "unit":
        return False
    return column.repeats and column.distinct >= 2


def _numbers_rows(column: CodedColumn) -> bool:
    return column.name.lower() in _ROW_NUMBERS or column.distinct == len(column.values)


def _find_panels(
    units: Sequence[CodedColumn],
    clocks: Sequence[RowClock],
    levels: Sequence[CodedColumn],
    columns: Sequence[CodedColumn],
) -> list[RowStructure]:
    """Units and clocks that name the rows together, although chance would let them coincide.

    A unit of that name may have several rows at each time, one for each of the `levels` of another
    column: the cases of each disease in a state and a year.
    """
    found = []
    for clock in clocks:
        if clock.values.distinct == len(clock.values.values):
            continue
        for unit in units:
            if unit.distinct < 3 or clock.values.distinct < 2:
                continue
            if not clock.is_calendar and unit.distinct < _FEWEST_UNITS:
                continue
            if not (unit.named or unit.lies_together):
                continue
            fewest = _FEWEST_COINCIDENCES if unit.named else _FEWEST_COINCIDENCES_UNNAMED
            keys = [[unit, clock.values]]
            if unit.named:
                keys += [[unit, clock.values, level] for level in levels if level is not unit]
            key = next((key for key in keys if _name_rows(key, fewest)), None)
            if key is None:
                continue
            names = " and ".join(repr(name) for name in (*(c.name for c in key[2:]), *clock.names))
            reason = f"{unit.name!r} and {names} name each row: {unit.distinct:,} units over time"
            found.append(
                RowStructure(
                    "panel",
                    unit.name,
                    clock.names,
                    clock.is_calendar,
                    reason,
                    _aliases(unit, columns),
                )
            )
    return found


def _name_rows(key: Sequence[CodedColumn], fewest: float) -> bool:
    """Do hardly any rows agree in all columns of a key, although at least `fewest` pairs of rows
    would, were the columns independent?"""
    rows = len(key[0].values)
    combined, by_chance = np.zeros(rows, dtype=np.int64), rows * (rows - 1) / 2
    for column in key:
        combined = combined * (column.distinct + 1) + column.codes
        by_chance *= float(((np.bincount(column.codes) / rows) ** 2).sum())
    agreeing = rows - len(np.unique(combined))
    return by_chance >= fewest and agreeing <= _FEW_COINCIDE * min(rows, by_chance)


def _find_groups(
    units: Sequence[CodedColumn], columns: Sequence[CodedColumn]
) -> list[RowStructure]:
    """Units with several rows. Where some lie together in the file, only those: a number that does
    not, such as a plot's within its site, starts again."""
    found = []
    for unit in units:
        if unit.distinct < (_FEWEST_UNITS if unit.named == "unit" else _FEWEST_UNNAMED):
            continue
        fixed = _fixed_by(unit, columns)
        lies_together = unit.lies_together or (
            unit.named == "unit" and _follows_in_blocks(unit, columns)
        )
        if not _is_group(unit, len(fixed), lies_together=lies_together):
            continue
        if fixed:
            name = next(iter(fixed))
            why = f"each has {fixed[name]} value of {name!r}"
        else:
            why = "they lie together in the file" if lies_together else "all of about one size"
        rows = len(unit.values) / unit.distinct
        reason = f"{unit.distinct:,} groups of about {rows:.0f} rows: {why}"
        aliases = _aliases(unit, columns)
        structure = RowStructure("group", unit.name, (), False, reason, aliases)
        found.append((unit, len(fixed), structure))
    if any(unit.lies_together for unit, _, _ in found):
        found = [entry for entry in found if entry[0].lies_together]
    found.sort(key=lambda entry: (entry[0].named != "unit", -entry[1]))
    return [structure for _, _, structure in found]


def _follows_in_blocks(unit: CodedColumn, columns: Sequence[CodedColumn]) -> bool:
    """Do rows of a unit lie together within each block of another column, as those of a dog within
    the left and the right side?"""
    return unit.repeats and any(
        column.lies_together and unit.follows_within(column.codes)
        for column in columns
        if column is not unit and 2 <= column.distinct <= _FEW_BLOCKS
    )


def _is_group(unit: CodedColumn, fixed: int, *, lies_together: bool) -> bool:
    """Does more than the name say that a column identifies units? `fixed` counts the coarser
    columns that it fixes."""
    match unit.named:
        case "unit":
            return lies_together or fixed > 0 or unit.is_even
        case "place":
            return lies_together and (fixed > 0 or unit.distinct >= _MANY_PLACES)
        case "number":
            return lies_together or fixed > 1
        case "":
            several_rows = unit.distinct * 2 <= len(unit.values)
            return unit.is_whole and several_rows and lies_together and fixed > 1
        case _:
            assert_never(unit.named)


def _fixed_by(unit: CodedColumn, columns: Sequence[CodedColumn]) -> dict[str, str]:
    """Coarser columns, or measurements, with `one` value in each group, although chance would vary
    them, and numbers of `about one` value in groups of no order in the file: the height of a
    person, measured again. Bins of an unordered number are no evidence: years of schooling fix the
    degree."""
    several = unit.sizes[unit.sizes > 1]
    if len(several) < _FEWEST_UNITS:
        return {}
    sizes, groups = np.unique(several, return_counts=True)
    may_be_quantity = unit.is_whole and not unit.lies_together
    may_be_measured_again = (
        unit.values.dtype == pl.String
        and unit.named in ("unit", "number")
        and not unit.lies_together
    )
    first_units = len(np.unique(unit.codes[:_FIRST_ROWS]))
    fixed: dict[str, str] = {}
    for column in columns:
        finest = unit.distinct - (column.is_whole or column.values.dtype == pl.String)
        if column is unit or column.distinct < 2:
            continue
        if column.distinct > finest:
            is_measured = may_be_measured_again and column.values.dtype.is_float()
            if is_measured and _share_within(unit, column) < _HARDLY_VARIES:
                fixed[column.name] = "about one"
            continue
        pairs = unit.codes * (column.distinct + 1) + column.codes
        if len(np.unique(pairs[:_FIRST_ROWS])) > first_units:
            continue
        pairs = np.unique(pairs)
        if len(pairs) > len(unit.sizes):
            continue
        values = pairs % (column.distinct + 1)
        if may_be_quantity and np.count_nonzero(np.diff(values)) < column.distinct:
            continue
        shares = np.bincount(column.codes) / len(column.codes)
        by_chance = (shares[None, :] ** sizes[:, None]).sum(axis=1)
        if (groups * np.log(np.maximum(by_chance, 1e-300))).sum() < _CHANCE:
            fixed[column.name] = "one"
    return fixed


def _share_within(unit: CodedColumn, column: CodedColumn) -> float:
    """Share of the variance of a column's ranks within the groups; 1 for hardly more rows than
    groups."""
    if len(column.codes) < 2 * unit.distinct:
        return 1.0
    ranks = column.codes - column.codes.mean()
    sums, counts = np.bincount(unit.codes, ranks), np.bincount(unit.codes)
    between = float((sums**2 / np.maximum(counts, 1)).sum())
    return 1 - between / float(ranks @ ranks)


def names_rows(structures: Iterable[RowStructure]) -> frozenset[str]:
    """Columns that say whose and when a row is: they may say much of the target, and leak nothing.
    A new unit or a later time has no value that a training row has."""
    return frozenset(
        name
        for structure in structures
        for name in (structure.entity, *structure.aliases, *structure.clock)
        if name
    )


def explained_changes(
    frame: pl.DataFrame, structures: Sequence[RowStructure], columns: Sequence[str], target: str
) -> float:
    """R2 of a linear fit of the target's changes in time by those of the columns, or of logarithms
    by logarithms; in a panel also of the means of units, if that is more. 1 where rows are no
    series, or not numbers: two trends agree in their values, whatever they measure, and a column
    made from another agrees in its changes too. Rows without any structure are a series in file
    order if the target trends through the file."""
    structure = next((one for one in structures if one.is_series), None)
    names = [*columns, target]
    if not all(frame[name].dtype.is_numeric() for name in names):
        return 1.0
    unit, ordered = "", frame
    if structure is not None:
        unit = structure.entity
        ordered = frame.sort([*([unit] if unit else []), *structure.clock], maintain_order=True)
    elif structures or resemblance(as_numbers(frame[target])) < _TRENDS:
        return 1.0
    levels = ordered.select(pl.col(name).cast(pl.Float64) for name in names)
    scales = [levels]
    if all((levels[name] > 0).all() for name in names):
        scales.append(levels.select(pl.all().log()))
    explained = 0.0
    for scale in scales:
        changes = scale.select(pl.all().diff())
        if not unit:
            explained = max(explained, _linear_fit(changes[1:]))
            continue
        starts = ordered[unit].is_first_distinct()
        means = scale.with_columns(ordered[unit].alias("\uffffunit")).group_by("\uffffunit").mean()
        between = _linear_fit(means.drop("\uffffunit"))
        explained = max(explained, between, _linear_fit(changes.filter(~starts)))
    return explained


def _linear_fit(rows: pl.DataFrame) -> float:
    """R2 of the last column by the others, over rows without missing values."""
    values = rows.drop_nulls().to_numpy()
    if len(values) <= 2 * rows.width:
        return 0.0
    values = values - values.mean(axis=0)
    fit = np.linalg.lstsq(values[:, :-1], values[:, -1], rcond=None)[0]
    left = values[:, -1] - values[:, :-1] @ fit
    total = float(values[:, -1] @ values[:, -1])
    return 1 - float(left @ left) / total if total else 0.0
