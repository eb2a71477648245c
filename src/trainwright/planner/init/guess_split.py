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
from trainwright.data.audit.row_overlap import repeats_of, verdict_of_share
from trainwright.data.audit.split_leaks import RESEMBLE
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import IN_MEMORY
from trainwright.data.columns.column_kinds import names_birth
from trainwright.data.read_table import RawTable
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.split.random_split import TRAIN, Shares
from trainwright.data.split.splits import split_rows
from trainwright.data.statistics.clocks import time_parts
from trainwright.data.statistics.dependence import as_numbers, resemblance
from trainwright.data.statistics.row_structure import RowStructure, find_structures
from trainwright.evaluation.intervals.bootstrap import LEAST_UNITS
from trainwright.planner.init.yaml_lines import flow, scalar

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
        """Do the newest rows test?"""
        return self.yaml.startswith("kind: time")


def find_divisions(raw: RawTable, target: str) -> list[Division]:
    """Possible splits, the most suitable first; the last ones always work."""
    structures = find_structures(raw.frames["train"], target)
    divisions = [_by_structure(structure) for structure in structures]
    if not divisions:
        divisions = [*_by_date(raw, target), *_by_parts(raw, target)]
    divisions += [*_by_content(raw, target), _by_chance(raw, target)]
    return [
        form
        for division in divisions
        for form in dict.fromkeys((_in_folds(division, raw), division))
    ]


def _by_structure(structure: RowStructure) -> Division:
    """By calendar time where there is one, else by the unit."""
    if not structure.is_series:
        unit = structure.entity
        reason = f"{structure.reason}; the score is for new ones"
        return Division(f"kind: group, column: {scalar(unit)}", unit, reason)
    reason = f"{structure.reason}: the test is the future"
    return _by_clock(structure.clock, reason)


def _by_clock(clock: tuple[str, ...], reason: str) -> Division:
    if len(clock) == 1:
        return Division(f"kind: time, column: {scalar(clock[0])}", clock[0], reason)
    return Division(f"kind: time, parts: {flow(list(clock))}", "", reason)


def _in_folds(division: Division, raw: RawTable) -> Division:
    """The same with folds if the rows are few, or those of a class that is judged."""
    classes = raw.facts.target.classes
    if classes and sum(rows >= _FOLDS for rows in classes.values()) < 2:
        return replace(division, reason=f"{division.reason}; {_undecidable(classes)}")
    few = _few_groups(division, raw) or _few_rows(raw)
    if raw.facts.given or not few:
        return division
    then = "the origin rolls" if division.is_time else "each is tested once"
    reason = f"{division.reason}; {few} are few, so {then}"
    yaml = division.yaml
    rare = sum(rows < _FOLDS for rows in classes.values())
    if yaml == "kind: stratified" and 0 < rare <= len(classes) - 2:
        yaml += ", rare: train"
        reason += f"; {_too_rare(rare)}"
    return Division(f"{yaml}, folds: {_FOLDS}", division.column, reason)


def _few_groups(division: Division, raw: RawTable) -> str:
    """The groups that are too few for one test part, as `14 groups`; empty where enough."""
    if not division.yaml.startswith("kind: group"):
        return ""
    groups = raw.frames["train"][division.column].n_unique()
    enough = groups * RandomSplit(kind="random").test >= LEAST_UNITS
    return "" if enough else f"{groups} groups"


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


def _by_content(raw: RawTable, target: str) -> list[Division]:
    """Split by content, if the audit would call the duplicates that a random split holds out a
    leak: of fewer it keeps equal class shares."""
    frame = raw.frames["train"]
    split = RandomSplit(kind="random")
    parts = split_rows(frame, target, split, Shares.of(split, raw.facts.given), 0)
    held = frame.filter(pl.Series(parts != TRAIN))
    features = [column for column in raw.columns if column.kind != "ignored"]
    repeats = repeats_of(frame.filter(pl.Series(parts == TRAIN)), held, features, target)
    share = repeats.copied / max(1, held.height)
    if not repeats.are_copies or verdict_of_share(share, repeats.copied) != "leak":
        return []
    copies = int(repeats.equal.sum())
    reason = (
        f"{copies:,} of {held.height:,} held-out rows would repeat a training row: equal rows stay "
        "on one side"
    )
    return [Division('kind: random, key: "*"', "", reason)]


def _by_chance(raw: RawTable, target: str) -> Division:
    frame = raw.frames["train"]
    reason = "no column says a group or a time"
    for name in _dates(raw):
        if (years := _years(frame[name])) >= _LIFETIME:
            reason += (
                f"; {name!r} spreads over {years:.0f} years in no order and is a feature: "
                f"{{kind: time, column: {scalar(name)}}} if it says when a row was known"
            )
    correlation = _autocorrelation(frame, target, np.arange(frame.height))
    if correlation >= RESEMBLE:
        reason += (
            f"; the target correlates {correlation:.2f} with that of the row before: if the file "
            "stands in the order of time, {kind: time, order: file}"
        )
    if raw.facts.target.kind == "numbers":
        return Division("kind: random", "", reason)
    rare = [name for name, rows in raw.facts.target.classes.items() if rows < _PARTS]
    if rare:
        reason = f"{reason}; {_too_rare(len(rare))}"
        return Division("kind: stratified, rare: train", "", reason)
    return Division("kind: stratified", "", f"{reason}; equal class shares")


def _by_date(raw: RawTable, target: str) -> list[Division]:
    """Split by a date along which the target is autocorrelated, in a file of no order."""
    frame = raw.frames["train"]
    for name in _dates(raw):
        if _years(frame[name]) >= _LIFETIME:
            continue
        order = frame[name].rank("ordinal").arg_sort().to_numpy().astype(np.int64)
        correlation = _autocorrelation(frame, target, order)
        if correlation >= RESEMBLE:
            return [_by_clock((name,), _resembling(correlation, "of the date before"))]
    return []


def _dates(raw: RawTable) -> Iterator[str]:
    """The columns that may say when a row was known: dates without a gap, and none of birth."""
    for column in raw.columns:
        values = raw.frames["train"][column.name]
        if values.dtype != pl.Datetime("us") or values.null_count() or names_birth(column.name):
            continue
        if values.n_unique() >= _FEWEST_MOMENTS:
            yield column.name


def _years(values: pl.Series) -> float:
    """From the oldest date to the newest."""
    moments = values.to_physical().to_numpy()
    return float(moments.max() - moments.min()) / _MICROSECONDS_A_YEAR


def _by_parts(raw: RawTable, target: str) -> list[Division]:
    """Split by year, month and so on, if the target is autocorrelated along the time that they are
    together."""
    frame = raw.frames["train"]
    parts = time_parts(frame.drop(target))
    if len(parts) < 2:
        return []
    split = TimeSplit(kind="time", parts=parts)
    moments = with_moments({"train": frame}, split, IN_MEMORY)["train"][MOMENT_COLUMN]
    order = moments.arg_sort().to_numpy().astype(np.int64)
    correlation = _autocorrelation(frame, target, order)
    if correlation < RESEMBLE:
        return []
    return [_by_clock(parts, _resembling(correlation, f"before in {', '.join(parts)}"))]


def _autocorrelation(frame: pl.DataFrame, target: str, order: Integers) -> float:
    """Of the target from row to row in an order."""
    start = max(0, len(order) - _MOST_ROWS) // 2
    return resemblance(as_numbers(frame[target][order[start : start + _MOST_ROWS]]))


def _resembling(correlation: float, what: str) -> str:
    return f"the target correlates {correlation:.2f} with that {what}: the test is what comes later"
