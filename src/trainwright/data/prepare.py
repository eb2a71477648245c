"""Typed rows to three encoded parts: divided, then fitted on the training part alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl

from trainwright.contract.data import ColumnSplit, GroupSplit, TableData, TimeSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.columns import ColumnType, best_typed
from trainwright.data.features import Features, fit_features
from trainwright.data.prepared import Prepared
from trainwright.data.reading import RawTable
from trainwright.data.split_report import SplitReport, report_split
from trainwright.data.splits import PARTS, Shares, divide, group_codes, moments, time_units
from trainwright.data.table import Integers, Part, PartName
from trainwright.data.target import Numbers, Target, fit_target
from trainwright.data.values import to_labels
from trainwright.data.version import data_version


def prepare_table(
    raw: RawTable, section: TableData, task: Literal["classification", "regression"], seed: int
) -> Prepared:
    """Divide and encode the rows. Every `auto` of the section must be decided.

    Nothing of the validation and test rows reaches what is fitted.

    Raises:
        DataMistake: the rows cannot be divided so, or groups or time cross the given files.
    """
    typed = {part: _target_typed(frame, section, task) for part, frame in raw.frames.items()}
    frames, rows = _divided(raw, typed, section, seed)
    made = len(raw.frames) < len(PARTS)
    columns = feature_columns(raw.columns, section)
    compared = [section.target, *(column.name for column in columns)]
    report = report_split(frames, section.split, section.target, compared, made)
    _check_crossing(report, section)
    target = fit_target(frames["train"][section.target], task, section.positive)
    features = fit_features(frames["train"], columns, raw.cleaning, section.features)
    units = _units(frames, section)
    parts = {
        part: Part(
            name=part,
            frame=frame,
            inputs=features.transform(frame),
            target=target.encode(frame[section.target]),
            rows=rows[part],
            units=units[part],
        )
        for part, frame in frames.items()
    }
    version = data_version(raw, section, rows, features, target)
    return Prepared(
        parts["train"], parts["validation"], parts["test"], features, target, report, version
    )


def feature_columns(columns: tuple[ColumnType, ...], section: TableData) -> tuple[ColumnType, ...]:
    """The columns that become inputs: not the target, not excluded, not ignored, not the split's
    group or part, and its time only as a date."""
    never = {section.target, *section.exclude}
    if isinstance(section.split, GroupSplit | ColumnSplit):
        never.add(section.split.column)
    chosen = []
    for column in columns:
        is_time = isinstance(section.split, TimeSplit) and column.name == section.split.column
        if column.name in never or (is_time and column.kind != "datetime"):
            continue
        if column.kind in ("numeric", "categorical", "datetime"):
            chosen.append(column)
    return tuple(chosen)


def read_part(
    frame: pl.DataFrame, features: Features, target: Target, name: PartName = "test"
) -> Part:
    """New labelled rows as a part of their own, for judging a fitted model on them.

    Raises:
        DataMistake: columns or targets are missing or cannot be read.
    """
    if target.column not in frame.columns:
        raise DataMistake(
            Problem(
                f"there is no column {target.column!r}, which holds the target",
                path=target.column,
                fix="add the column, or use predict for rows without a target",
            )
        )
    typed = features.read(frame)
    rows = np.arange(frame.height, dtype=np.int64)
    others = [
        best_typed(features.cleaning.cells(column))
        for column in frame.get_columns()
        if column.name not in typed.columns
    ]
    encoded = target.encode(features.cleaning.cells(frame[target.column]))
    whole = typed.with_columns(others)
    return Part(name, whole, features.transform(typed), encoded, rows, rows)


def _target_typed(
    frame: pl.DataFrame, section: TableData, task: Literal["classification", "regression"]
) -> pl.DataFrame:
    """The target as labels or numbers, as the task says: the contract may call few numbers a
    regression, or many numbers classes."""
    series = frame[section.target]
    if task == "classification":
        return frame.with_columns(to_labels(series))
    values = Numbers(section.target, 0.0, 1.0).encode(series)
    return frame.with_columns(pl.Series(section.target, values))


def _divided(
    raw: RawTable, typed: Mapping[PartName, pl.DataFrame], section: TableData, seed: int
) -> tuple[dict[PartName, pl.DataFrame], dict[PartName, Integers]]:
    source = typed["train"]
    shares = Shares.of(section.split, raw.facts.given)
    codes = divide(source, section.target, section.split, shares, seed)
    frames: dict[PartName, pl.DataFrame] = {}
    rows: dict[PartName, Integers] = {}
    for code, part in enumerate(PARTS):
        if part in raw.frames and part != "train":
            frames[part], rows[part] = typed[part], raw.positions[part]
        else:
            chosen = np.flatnonzero(codes == code)
            frames[part], rows[part] = source[chosen], raw.positions["train"][chosen]
    return frames, rows


def _check_crossing(report: SplitReport, section: TableData) -> None:
    problems: list[Problem] = []
    if report.groups_on_two_sides and isinstance(section.split, GroupSplit):
        problems.append(
            Problem(
                f"{report.groups_on_two_sides} groups stand in more than one of the given files",
                path="data.split.column",
                found=f"column {section.split.column!r}",
                expected="every group in one file",
                fix="give one file in data.path and let it be divided by group",
            )
        )
    if report.future_rows_in_training and isinstance(section.split, TimeSplit):
        problems.append(
            Problem(
                f"{report.future_rows_in_training} training rows are not older than the validation "
                "and test rows",
                path="data.split.column",
                found=", ".join(f"{p} {a} to {b}" for p, (a, b) in report.time_ranges.items()),
                expected="training rows that are the oldest",
                fix="give one file in data.path and let it be divided by time",
            )
        )
    if problems:
        raise DataMistake(problems)


def _units(frames: Mapping[PartName, pl.DataFrame], section: TableData) -> dict[PartName, Integers]:
    match section.split:
        case GroupSplit(column=name):
            codes = group_codes(pl.concat([to_labels(frame[name]) for frame in frames.values()]))
            ends = np.cumsum([frame.height for frame in frames.values()])
            return dict(zip(frames, np.split(codes, ends[:-1]), strict=True))
        case TimeSplit(column=name):
            return {part: time_units(moments(frame, name)) for part, frame in frames.items()}
        case _:
            return {part: np.arange(frame.height) for part, frame in frames.items()}
