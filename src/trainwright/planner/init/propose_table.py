"""First contract for a table, with the reason of every setting."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.core.formatting import many
from trainwright.data.audit.split_leaks import late_dates
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import some
from trainwright.data.base.row_storage import IN_MEMORY, spread_rows
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.columns.fit_target import choose_positive
from trainwright.data.columns.resolve_doubts import FREE_TEXT, said
from trainwright.data.read_table import RawTable
from trainwright.data.split.fold_split import cut_folds
from trainwright.data.split.hidden_columns import with_moments
from trainwright.data.split.random_split import TEST, TRAIN, VALIDATION, Shares
from trainwright.data.split.splits import split_rows, without_ignored
from trainwright.data.statistics.lag_detection import lags
from trainwright.data.statistics.leak_tests import find_dependent, find_leaks, find_suspicions
from trainwright.data.statistics.row_structure import find_structures
from trainwright.planner.init.guess_split import Division, find_divisions
from trainwright.planner.init.yaml_lines import comment, flow, scalar

_FEWEST_OF_A_CLASS = 10


def works(division: Division, raw: RawTable, target: str) -> bool:
    """Whether the rows can be divided so, with a feature left, and every class that is held out
    trains too."""
    if all(column.kind == "ignored" or column.name == division.column for column in raw.columns):
        return False
    try:
        parts = _parts(division, raw, target)
    except DataMistake:
        return False
    if raw.facts.target.kind == "numbers":
        return True
    labels = raw.frames["train"][target]
    known = [set(labels.filter(pl.Series(one == TRAIN)).unique()) for one in parts]
    held = [
        set(labels.filter(pl.Series((one == VALIDATION) | (one == TEST))).unique()) for one in parts
    ]
    rows = raw.facts.target.classes.values()
    both = len(rows) == 2 and min(rows) >= _FEWEST_OF_A_CLASS
    if both and not all(len(other) == 2 for other in held):
        return False
    return all(other <= trained for trained, other in zip(known, held, strict=True))


def fewest_training_rows(division: Division, raw: RawTable, target: str) -> int:
    """The training rows of the smallest fold; all rows where they cannot be divided so."""
    try:
        parts = _parts(division, raw, target)
    except DataMistake:
        return raw.facts.rows
    return min(int(np.count_nonzero(one == TRAIN)) for one in parts)


def _parts(division: Division, raw: RawTable, target: str) -> list[Integers]:
    """The part of each row, in the training of each fold.

    Raises:
        DataMistake: a part would have no rows.
    """
    split = TableData.model_validate_json(json.dumps({"split": division.section})).split
    rows = without_ignored(raw.frames["train"], split, raw.columns)
    frame = with_moments({"train": rows}, split, IN_MEMORY)["train"]
    if split.folds == "off":
        return [split_rows(frame, target, split, Shares.of(split, raw.facts.given), 0)]
    folds = cut_folds(frame, target, split, 0)
    return [folds.parts(number) for number in range(folds.count)]


_BALANCED = 0.2
_MOST_SLICES = 10
_MOST_ROWS = 50_000
_MOST_OF_A_NAME = 40
_FEW_BESIDE_TEXTS = 3
_FEWEST_FOR_TREES, _FEW_ROWS = 40, 1_000
"""Below so many rows the smallest training part is counted, and two kinds of models are tried."""


@final
@dataclass(frozen=True, slots=True)
class _Chosen:
    """A setting's YAML and its reason."""

    yaml: str
    reason: str


@final
@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """Additional contents of a contract: the path of a JSON `schema` for editors, and the lines
    under `data` on how its files are read and rows are handled."""

    schema: str = ""
    reading: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()


USUAL = ProposalSettings()


def propose(raw: RawTable, path: str, target: str, settings: ProposalSettings = USUAL) -> str:
    """Text of a contract for data that was read; `path` is the file's path in the contract."""
    frame = raw.frames["train"]
    divisions = find_divisions(raw, target)
    division = _first_that_works(divisions, raw, target)
    excluded = _excluded(raw, frame, target, division)
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
        *_reading_lines(raw, settings.reading),
        *settings.rows,
    ]
    if len(raw.facts.target.classes) == 2:
        lines.append("  " + _line("positive", _positive(raw.facts.target.classes)))
    lines += _exclude_lines(excluded)
    lines += _column_lines(raw, excluded)
    lines.append("  " + _line("split", _Chosen(f"{{{division.yaml}}}", division.reason)))
    rows = fewest_training_rows(division, raw, target) if raw.facts.rows < _FEW_ROWS else _FEW_ROWS
    lines += [_model_line(raw, excluded, rows), "metric:"]
    lines.append("  " + _line("name", _metric(raw)))
    by_default = "by default: better than every baseline"
    lines.append(f"  # target: {_example_target(frame[target])}; {by_default}")
    lines += _slice_lines(raw, excluded, division.column)
    lines.append("seed: 0  # the same number gives the same model; split_seed draws the parts")
    return "\n".join(lines) + "\n"


def _model_line(raw: RawTable, excluded: Mapping[str, str], rows: int) -> str:
    """`rows` are the fewest that train."""
    kinds = [column.kind for column in raw.columns if column.name not in excluded]
    texts = kinds.count("text")
    others = len(kinds) - texts - kinds.count("ignored")
    if texts and others <= _FEW_BESIDE_TEXTS and raw.facts.target.classes:
        what = "texts with few other columns" if others else "texts alone"
        reason = f"the strongest start on {what}, and trees take minutes; or boosting, mlp"
        return f"model: {{kind: linear}}  # {reason}"
    if rows < _FEWEST_FOR_TREES:
        return f"model: {{kind: linear}}  # {rows} training rows are too few for trees"
    if rows < _FEW_ROWS and not texts:
        reason = "on few rows either may be the better one; rows held out from training decide"
        return f"model: {{kind: auto, candidates: [linear, boosting]}}  # {reason}"
    return "model: {kind: boosting}  # the strongest start on tables; or linear, mlp"


def _first_that_works(divisions: Sequence[Division], raw: RawTable, target: str) -> Division:
    """The first split that fills every part; the last one if none does."""
    works_not: list[str] = []
    for division in divisions:
        if works(division, raw, target):
            break
        if division.column or division.is_time:
            works_not.append(f"{{{division.yaml}}} leaves a part without rows or without a class")
    reasons = "; ".join((division.reason, *works_not[:1]))
    return replace(division, reason=reasons)


def _reading_lines(raw: RawTable, known: tuple[str, ...]) -> list[str]:
    """How the files are read, with the comma columns in doubt among their numbers."""
    numbers = [
        f"      {scalar(doubt.column)}: {doubt.numbers}"
        for doubt in raw.facts.doubts
        if doubt.numbers
    ]
    if not numbers:
        return list(known)
    lines = list(known) or ["  reading:"]
    if "    numbers:" in lines:
        return [*lines, *numbers]
    return [*lines, "    numbers:", *numbers]


def _column_lines(raw: RawTable, excluded: Mapping[str, str]) -> list[str]:
    """Proposals for columns of ambiguous type."""
    lines = [
        f"    {scalar(doubt.column)}: {flow(said(doubt.settings))}  # {comment(doubt.reason)}"
        for doubt in raw.facts.doubts
        if doubt.column not in excluded and said(doubt.settings)
    ]
    return ["  columns:", *lines] if lines else []


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
        f"{comment(n[:_MOST_OF_A_NAME])} {c / sum(facts.classes.values()):.1%}"
        for n, c in _counts(facts.classes)
    ]
    return f"classification  # the target has {len(facts.classes)} classes: {some(shares, 4)}"


def _counts(classes: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(classes.items(), key=lambda pair: (-pair[1], pair[0]))


def _positive(classes: Mapping[str, int]) -> _Chosen:
    positive, reason = choose_positive(classes)
    return _Chosen(scalar(positive), reason)


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


def _excluded(
    raw: RawTable, frame: pl.DataFrame, target: str, division: Division
) -> dict[str, str]:
    """Columns that should never be features, with the reason of each; never all of them."""
    key = division.column
    doubted = {doubt.column: doubt.reason for doubt in raw.facts.doubts}
    found = {
        column.name: doubted.get(column.name, column.reason)
        for column in raw.columns
        if column.kind == "ignored" and column.name != key
    }
    usable = [c for c in raw.columns if c.kind != "ignored" and c.name != key]
    if any(column.name == key and column.kind == "datetime" for column in raw.columns):
        known = lags(frame, [c.name for c in usable if c.kind == "numeric"], target, key)
        usable = [column for column in usable if column.name not in known]
    structures = find_structures(frame, target)
    rows = _rows_of_audit(division, raw, target)
    names = [column.name for column in usable if column.kind in ("numeric", "categorical")]
    leaks = find_leaks(rows, usable, target, structures)
    for leak in (*leaks, *find_dependent(rows, names, target, structures)):
        for name in leak.columns:
            found.setdefault(name, f"gives the target away: {leak.message}")
    if division.is_time:
        dates = [column.name for column in usable if column.kind == "datetime"]
        for name in late_dates(frame, dates, key):
            found.setdefault(name, f"it is later than {key!r}, the time of the row")
    honest = [column for column in usable if column.name not in found]
    for suspicion in find_suspicions(rows, honest, target, structures):
        # Two columns that determine the class together may be a valid rule.
        name, *others = suspicion.columns
        shared = name_tokens(name) & name_tokens(target)
        if not others and any(len(word) > 1 and not word.isdigit() for word in shared):
            found[name] = f"another form of the target: {suspicion.message}"
    features = {column.name for column in usable} | ({key} if division.is_time and key else set())
    if features <= set(found):
        # A contract needs a feature: a test that suspects all of them says nothing about one.
        found = {name: reason for name, reason in found.items() if name not in features}
    order = [column.name for column in raw.columns]
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0])))


def _rows_of_audit(division: Division, raw: RawTable, target: str) -> pl.DataFrame:
    """The training rows, of the first fold, in which `check` looks for leaks."""
    rows = raw.frames["train"]
    with contextlib.suppress(DataMistake):  # every split leaves a part empty: `check` will say so
        rows = rows.filter(pl.Series(_parts(division, raw, target)[0] == TRAIN))
    return rows[spread_rows(rows.height, _MOST_ROWS)]


def _exclude_lines(excluded: Mapping[str, str]) -> list[str]:
    if not excluded:
        return []
    return ["  exclude:", *(_exclude_line(name, reason) for name, reason in excluded.items())]


def _exclude_line(name: str, reason: str) -> str:
    said = comment(reason)
    if reason.startswith(FREE_TEXT):
        said += f"; columns: {{{scalar(name)}: {{kind: text}}}} to use it"
    return f"    - {scalar(name)}  # {said}"


def _line(key: str, chosen: _Chosen) -> str:
    return f"{key}: {chosen.yaml}  # {comment(chosen.reason)}"
