"""A first contract for a file, with the reason of every choice beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import polars as pl

from trainwright.core.units import many
from trainwright.data.columns import ColumnType, name_tokens
from trainwright.data.lags import lags
from trainwright.data.leakage import find_leaks, find_suspicions
from trainwright.data.reading import RawTable
from trainwright.data.space import spread_rows
from trainwright.data.wording import some

GROUP_NAMES = frozenset(
    {"id", "subject", "patient", "user", "customer", "group", "session", "device", "household"}
)
"""Words in a column's name that make it a group key, if its values also repeat like one."""

POSITIVE_NAMES = ("1", "yes", "true", "positive", "y", "t", "ja", "oui", "si", "sí", "sì", "да")
_ROWS_PER_GROUP = 5
_FEWEST_GROUPS = 10
_BALANCED = 0.2
_MOST_SLICES = 10
_MOST_ROWS = 50_000
_PLAIN = re.compile(r"(\.\./)*[A-Za-z_][A-Za-z0-9_./-]*")
_RESERVED = frozenset({"yes", "no", "true", "false", "on", "off", "null", "y", "n"})


@final
@dataclass(frozen=True, slots=True)
class _Chosen:
    """A setting's YAML and why it was chosen."""

    yaml: str
    reason: str


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """What stands in a contract beside what is proposed: the path of a JSON `schema` for editors,
    and the lines under `data` that say how its files were read."""

    schema: str = ""
    reading: tuple[str, ...] = ()


USUAL = Settings()


def propose(raw: RawTable, path: str, target: str, settings: Settings = USUAL) -> str:
    """The text of a contract for data that was read; `path` is what the contract calls the file."""
    frame = raw.frames["train"]
    split, key = _split(raw, frame)
    excluded = _excluded(raw, frame, target, key)
    schema = settings.schema
    lines = [f"# yaml-language-server: $schema={schema}"] if schema else []
    size = f"{many(raw.facts.rows, 'row')}, {many(len(raw.columns) + 1, 'column')}"
    about = f"proposed from {comment(path)}: {size}"
    lines += [
        f"# What a model for {comment(target)} must prove, {about}.",
        f"task: {_task(raw)}",
        "data:",
        f"  path: {scalar(path)}",
        f"  target: {scalar(target)}",
        *settings.reading,
    ]
    if len(raw.facts.target.classes) == 2:
        lines.append("  " + _line("positive", _positive(raw.facts.target.classes)))
    lines += _exclude_lines(excluded)
    lines.append("  " + _line("split", split))
    lines += ["model: {kind: boosting}  # the strongest start on tables; or linear, mlp", "metric:"]
    lines.append("  " + _line("name", _metric(raw)))
    lines.append(
        f"  # target: {_example_target(frame[target])}; left out: better than every baseline"
    )
    lines += _slice_lines(raw, excluded, key)
    lines.append("seed: 0  # the same number gives the same model; split_seed draws the parts")
    return "\n".join(lines) + "\n"


def _example_target(target: pl.Series) -> str:
    if target.dtype == pl.String:
        return "0.9  # the least score that is good enough"
    half = float(target.to_numpy().std()) / 2
    return (
        f"{float(f'{half:.2g}'):g}  # the largest error allowed, here half the target's deviation"
    )


def _slice_lines(raw: RawTable, excluded: Mapping[str, str], key: str) -> list[str]:
    for column in raw.columns:
        few = column.kind == "categorical" and 2 <= column.distinct <= _MOST_SLICES
        if few and column.name not in excluded and column.name != key:
            example = f"# slices: [{{column: {scalar(column.name)}}}]"
            return [f"{example}  # judges each of its {column.distinct} values on its own"]
    return []


def _task(raw: RawTable) -> str:
    facts = raw.facts.target
    if facts.kind == "numbers":
        return f"regression  # the target is a number with {facts.distinct:,} different values"
    shares = [
        f"{comment(n)} {c / sum(facts.classes.values()):.1%}" for n, c in _counts(facts.classes)
    ]
    return f"classification  # the target has {len(facts.classes)} classes: {some(shares, 4)}"


def _counts(classes: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(classes.items(), key=lambda pair: (-pair[1], pair[0]))


def _positive(classes: Mapping[str, int]) -> _Chosen:
    named = [name for name in classes if name.lower() in POSITIVE_NAMES]
    if len(named) == 1:
        return _Chosen(scalar(named[0]), "the class to find, by its name")
    rarer = _counts(classes)[-1][0]
    return _Chosen(scalar(rarer), "the rarer class")


def _metric(raw: RawTable) -> _Chosen:
    classes = raw.facts.target.classes
    if not classes:
        return _Chosen("rmse", "the error in the target's own unit; large errors weigh more")
    if len(classes) > 2:
        return _Chosen("f1_macro", "every class counts alike, however rare")
    share = min(classes.values()) / sum(classes.values())
    if share >= _BALANCED:
        return _Chosen("roc_auc", f"the rarer class has {share:.1%} of the rows: balanced enough")
    return _Chosen(
        "average_precision",
        f"the rarer class has only {share:.1%} of the rows, which ROC AUC hides",
    )


def _split(raw: RawTable, frame: pl.DataFrame) -> tuple[_Chosen, str]:
    """The split, and the column it takes its groups or time from (empty for none)."""
    for column in raw.columns:
        if _is_group_key(column, frame[column.name]):
            rows = frame.height / column.distinct
            reason = (
                f"{column.distinct} groups of {rows:.0f} rows: a group's rows resemble each other"
            )
            return _Chosen(f"{{kind: group, column: {scalar(column.name)}}}", reason), column.name
    for column in raw.columns:
        if column.kind == "datetime" and _is_sorted(frame[column.name]):
            text = f"{{kind: time, column: {scalar(column.name)}}}"
            return _Chosen(
                text, "the file is sorted by this date: the test is the future"
            ), column.name
    if raw.facts.target.kind == "numbers":
        return _Chosen("{kind: random}", "no column says a group or a time"), ""
    if min(raw.facts.target.classes.values()) < 3:
        return _Chosen("{kind: random}", "a class has fewer than 3 rows, too few to stratify"), ""
    return _Chosen("{kind: stratified}", "no column says a group or a time; equal class shares"), ""


def _is_group_key(column: ColumnType, values: pl.Series) -> bool:
    if not name_tokens(column.name) & GROUP_NAMES or column.kind not in ("numeric", "categorical"):
        return False
    present = len(values) - column.missing
    if column.distinct < _FEWEST_GROUPS or column.distinct * _ROWS_PER_GROUP > present:
        return False
    if column.kind == "numeric":
        numbers = values.drop_nulls()
        return bool((numbers == numbers.floor()).all())
    return True


def _is_sorted(times: pl.Series) -> bool:
    return not times.null_count() and times.n_unique() >= _FEWEST_GROUPS and times.is_sorted()


def _excluded(raw: RawTable, frame: pl.DataFrame, target: str, key: str) -> dict[str, str]:
    """Columns that should never be features, with the reason of each."""
    found = {
        column.name: column.reason
        for column in raw.columns
        if column.kind == "ignored" and column.name != key
    }
    usable = [c for c in raw.columns if c.kind != "ignored" and c.name != key]
    if any(column.name == key and column.kind == "datetime" for column in raw.columns):
        known = lags(frame, [c.name for c in usable if c.kind == "numeric"], target, key)
        usable = [column for column in usable if column.name not in known]
    rows = frame[spread_rows(frame.height, _MOST_ROWS)]
    for leak in find_leaks(rows, usable, rows[target]):
        for name in leak.columns:
            found.setdefault(name, f"gives the target away: {leak.message}")
    honest = [column for column in usable if column.name not in found]
    for suspicion in find_suspicions(rows, honest, rows[target]):
        # Two columns that tell the class together may be a rule that holds.
        name, *others = suspicion.columns
        if not others and name_tokens(name) & name_tokens(target):
            found[name] = f"another form of the target: {suspicion.message}"
    order = [column.name for column in raw.columns]
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0])))


def _exclude_lines(excluded: Mapping[str, str]) -> list[str]:
    if not excluded:
        return []
    names = [f"    - {scalar(name)}  # {comment(reason)}" for name, reason in excluded.items()]
    return ["  exclude:", *names]


def _line(key: str, chosen: _Chosen) -> str:
    return f"{key}: {chosen.yaml}  # {comment(chosen.reason)}"


def scalar(text: str) -> str:
    """A YAML string: plain where no reader can mistake it, else in double quotes."""
    if _PLAIN.fullmatch(text) and text.lower() not in _RESERVED:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def comment(text: str) -> str:
    """Text that cannot end a comment."""
    return "".join(mark if mark.isprintable() else " " for mark in text)
