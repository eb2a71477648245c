"""The probe: a small model scored under two conditions, on the same rows and folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.model.linear import Linear
from trainwright.core.process import loading
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers, TableInputs
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.encoders.scaling import far_center
from trainwright.data.encoders.time_features import fit_dates
from trainwright.data.split.groups import fill_bins, members
from trainwright.data.split.random_split import random_keys
from trainwright.data.split.time_split import moments, time_blocks
from trainwright.model.linear.linear_fit import fit_linear

ProbeKind = Literal["boosting", "linear"]

FOLDS = 5
FIRST_FORETOLD = 3
"""First of five time blocks that is predicted: three fifths of the rows then train, about as many
as in a run."""

MOST_ROWS = 20_000
"""Row limit of the probe; more rows are sampled."""

_TREES, _CLASS_TREES, _FEWEST_TREES = 100, 300, 10
_MOST_CODES = 200
_TERMS = 300
_SCALINGS, _TINY = 20, 1e-12
_MICROSECONDS_A_DAY = 86_400_000_000
_OPTIONS = {
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 20,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "verbosity": -1,
    "seed": 0,
}
_PENALTY = Linear(kind="linear", max_iterations=200)

TIME_BLOCKS = 50
"""Time blocks of the cluster bootstrap."""


@final
@dataclass(frozen=True, slots=True)
class ProbeRows:
    """N table rows of the probe with their target: int64 class codes [N] of `outputs` classes, or
    float64 values [N] with `outputs` 1; of several targets [N, T], labels or values."""

    frame: pl.DataFrame
    target: npt.NDArray[Any]
    outputs: int

    def __len__(self) -> int:
        return len(self.target)

    def take(self, rows: Integers) -> ProbeRows:
        """The given rows, in the given order."""
        return ProbeRows(self.frame[rows], self.target[rows], self.outputs)

    def each(self) -> tuple[ProbeRows, ...]:
        """Those of each of several targets, of a label as two classes; empty for one."""
        if self.target.ndim == 1:
            return ()
        outputs = 2 if self.target.dtype.kind == "i" else 1
        return tuple(ProbeRows(self.frame, column, outputs) for column in self.target.T)


def _side_by_side(each: Sequence[Floats]) -> Floats:
    """Scores [N, T] of several targets, of labels the probability."""
    return np.concatenate([one[:, -1:] for one in each], axis=1)


def encode(rows: ProbeRows, columns: Sequence[ColumnType]) -> TableInputs:
    """Encode columns without the target: numbers, dates as a timestamp and as the parts
    that a model uses, words by codes of the 200 most frequent, texts by the presence of their 300
    most frequent terms."""
    numbers: list[Floats] = []
    codes: list[Integers] = []
    for column in columns:
        series = rows.frame[column.name]
        match column.kind:
            case "numeric":
                values = column.distances(rows.frame).fill_null(np.nan).to_numpy()
                numbers.append(values - far_center(values))
            case "datetime":
                days = (series.cast(pl.Int64) - series.cast(pl.Int64).min()) / _MICROSECONDS_A_DAY
                numbers.append(days.fill_null(np.nan).to_numpy())
                parts = fit_dates(rows.frame, [column.name], "parts")
                each = (part.values(rows.frame).cast(pl.Float64) for part in parts)
                numbers.extend(one.fill_null(np.nan).to_numpy() for one in each)
            case "text":
                numbers.extend(_terms(series).T)
            case _:
                codes.append(_codes(series))
    empty = len(rows)
    numeric = np.stack(numbers, axis=1) if numbers else np.empty((empty, 0))
    categories = np.stack(codes, axis=1) if codes else np.empty((empty, 0), dtype=np.int64)
    return TableInputs(numeric.astype(np.float32), categories)


def out_of_fold(
    rows: ProbeRows, inputs: TableInputs, folds: Integers, kind: ProbeKind, *, level: bool
) -> Floats:
    """Out-of-fold scores, [N, C] or [N, 1].

    With `level` each fold's scores are shifted to the mean, or the class shares, of all rows, so
    that a different mean of a fold does not count against the features.
    """
    if each := rows.each():
        return _side_by_side([out_of_fold(one, inputs, folds, kind, level=level) for one in each])
    scores = np.empty((len(rows), rows.outputs))
    for fold in np.unique(folds):
        seen, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        score = _fit(rows, inputs, seen, kind)
        found = score(asked)
        scores[asked] = _levelled(found, score(seen), rows, seen) if level else found
    return scores


def foretold(rows: ProbeRows, inputs: TableInputs, blocks: Integers, kind: ProbeKind) -> Floats:
    """Rolling-origin scores of each block by a model of all earlier blocks; nan for the first
    blocks, which are not predicted."""
    if each := rows.each():
        return _side_by_side([foretold(one, inputs, blocks, kind) for one in each])
    scores = np.full((len(rows), rows.outputs), np.nan)
    for block in range(FIRST_FORETOLD, FOLDS):
        asked = np.flatnonzero(blocks == block)
        scores[asked] = _fit(rows, inputs, np.flatnonzero(blocks < block), kind)(asked)
    return scores


def interpolated(
    rows: ProbeRows, inputs: TableInputs, blocks: Integers, kind: ProbeKind, seed: int
) -> Floats:
    """Scores of the same rows by models of as many rows as in `foretold`, drawn from all times:
    half of a block is scored by a model that may be trained on the other half."""
    if each := rows.each():
        return _side_by_side([interpolated(one, inputs, blocks, kind, seed) for one in each])
    scores = np.full((len(rows), rows.outputs), np.nan)
    order = np.argsort(random_keys(len(rows), seed, "experiment halves"), kind="stable")
    half = np.empty(len(rows), dtype=np.int64)
    half[order] = np.arange(len(rows)) % 2
    for block in range(FIRST_FORETOLD, FOLDS):
        size = int((blocks < block).sum())
        for side in (0, 1):
            asked = (blocks == block) & (half == side)
            seen = np.sort(order[~asked[order]][:size])
            scores[asked] = _fit(rows, inputs, seen, kind)(np.flatnonzero(asked))
    return scores


def constant_scores(rows: ProbeRows) -> Floats:
    """Scores of a constant model: the mean, or the class shares."""
    if each := rows.each():
        return _side_by_side([constant_scores(one) for one in each])
    if rows.outputs == 1:
        return np.full((len(rows), 1), float(rows.target.mean()))
    return np.tile(_shares(rows.target, rows.outputs), (len(rows), 1))


def _levelled(scores: Floats, of_seen: Floats, rows: ProbeRows, seen: Integers) -> Floats:
    """Shift scores by what moves those of the seen rows to the overall mean. Class shares are moved
    by class weights from iterative scaling: the prior ratio alone would move well-separated rows
    too little."""
    if rows.outputs == 1:
        moved: Floats = scores + (rows.target.mean() - rows.target[seen].mean())
        return moved
    wanted = _shares(rows.target, rows.outputs)
    weights = np.ones(rows.outputs)
    for _ in range(_SCALINGS):
        weights *= wanted / np.maximum(_weighted(of_seen, weights).mean(axis=0), _TINY)
    return _weighted(scores, weights)


def _weighted(scores: Floats, weights: Floats) -> Floats:
    weighted = scores * weights + _TINY
    shares: Floats = weighted / weighted.sum(axis=1, keepdims=True)
    return shares


def _shares(codes: Integers, outputs: int) -> Floats:
    """Class shares, none of them 0."""
    counts = np.bincount(codes, minlength=outputs) + 0.5
    shares: Floats = counts / counts.sum()
    return shares


def _fit(
    rows: ProbeRows, inputs: TableInputs, seen: Integers, kind: ProbeKind
) -> Callable[[Integers], Floats]:
    """Fit on the seen rows; returns a scoring function."""
    target = rows.target[seen]
    sees_nothing = not (inputs.numeric.shape[1] or inputs.categories.shape[1])
    if rows.outputs == 1 and sees_nothing:
        return lambda asked: np.full((len(asked), 1), float(target.mean()))
    if rows.outputs > 1 and (sees_nothing or len(np.unique(target)) == 1):
        shares = _shares(target, rows.outputs)
        return lambda asked: np.tile(shares, (len(asked), 1))
    if kind == "linear":
        scaled = _scaled(inputs, seen)
        sizes = tuple(int(each.max()) + 1 for each in inputs.categories.T)
        linear = fit_linear(_PENALTY, scaled.take(seen), target, rows.outputs, sizes)
        return lambda asked: linear.score(scaled.take(asked))
    return _grown(rows, inputs, seen)


def _grown(rows: ProbeRows, inputs: TableInputs, seen: Integers) -> Callable[[Integers], Floats]:
    """Boosted trees; fewer for many classes, which each have their own trees."""
    # Imported here since only runs with findings need it.
    with loading():
        import lightgbm

    matrix = np.concatenate([inputs.numeric, inputs.categories.astype(np.float32)], axis=1)
    numbers, width = inputs.numeric.shape[1], matrix.shape[1]
    trees = max(_FEWEST_TREES, min(_TREES, _CLASS_TREES // rows.outputs))
    center = far_center(rows.target[seen]) if rows.outputs == 1 else 0.0
    data = lightgbm.Dataset(
        matrix[seen],
        rows.target[seen] - center,
        categorical_feature=list(range(numbers, width)),
        params={"max_bin": 127, "verbosity": -1},
    )
    model = lightgbm.train({**_OPTIONS, **_objective(rows.outputs)}, data, trees)

    def score(asked: Integers) -> Floats:
        raw = np.asarray(model.predict(matrix[asked], num_threads=1), dtype=np.float64)
        if rows.outputs == 1:
            return raw[:, None] + center
        return np.stack([1 - raw, raw], axis=1) if rows.outputs == 2 else raw

    return score


def _objective(outputs: int) -> dict[str, str | int]:
    match outputs:
        case 1:
            return {"objective": "regression_l2"}
        case 2:
            return {"objective": "binary"}
        case _:
            return {"objective": "multiclass", "num_class": outputs}


def _scaled(inputs: TableInputs, seen: Integers) -> TableInputs:
    """Numbers standardised by the seen rows; missing ones 0."""
    numbers = inputs.numeric.astype(np.float64)
    known = np.where(np.isfinite(numbers), numbers, np.nan)
    of_seen = np.ma.masked_invalid(known[seen])
    mean, deviation = (np.ma.filled(part, 0.0) for part in (of_seen.mean(0), of_seen.std(0)))
    scaled = (known - mean) / np.where(deviation > 0, deviation, 1.0)
    return TableInputs(np.nan_to_num(scaled).astype(np.float32), inputs.categories)


def _codes(series: pl.Series) -> Integers:
    """Codes of the most frequent words, one for the others, one for missing."""
    labels = series.cast(pl.String)
    known = count_values(labels.drop_nulls())["value"].head(_MOST_CODES)
    codes = list(range(2, len(known) + 2))
    coded = labels.replace_strict(known, codes, default=1, return_dtype=pl.Int64)
    found: Integers = coded.zip_with(
        labels.is_not_null(), pl.repeat(0, len(labels), eager=True).cast(pl.Int64)
    ).to_numpy()
    return found


def _terms(series: pl.Series) -> Floats:
    """Presence of the most frequent terms, [N, terms]."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(max_features=_TERMS, binary=True)
    texts = series.cast(pl.String).fill_null("").to_list()
    try:
        found: Floats = vectorizer.fit_transform(texts).toarray().astype(np.float64)
    except ValueError:
        # No text has a term.
        return np.empty((len(texts), 0))
    return found


class Sample(NamedTuple):
    """Row positions of the probe [n], and the resampling unit of each, from 0 [n]."""

    rows: Integers
    units: Integers


def sample_groups(column: pl.Series, seed: int) -> Sample:
    """Whole groups, sampled at random beyond the row limit. Rows without a group are excluded."""
    present = column.is_not_null().arg_true().to_numpy().astype(np.int64)
    member, sizes = members(to_labels(column[present]))
    keys = random_keys(len(sizes), seed, "experiment sample")
    order = np.argsort(keys, kind="stable")
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[order[np.cumsum(sizes[order]) <= MOST_ROWS]] = True
    kept = chosen[member]
    return Sample(present[kept], _numbered(member[kept]))


def sample_time_blocks(column: pl.Series) -> Sample:
    """50 time blocks; beyond the row limit shorter ones, evenly spaced."""
    rows = column.is_not_null().arg_true().to_numpy().astype(np.int64)
    order = rows[np.argsort(column[rows].to_physical().to_numpy(), kind="stable")]
    if len(order) > MOST_ROWS:
        length = MOST_ROWS // TIME_BLOCKS
        starts = np.linspace(0, len(order) - length, TIME_BLOCKS).astype(np.int64)
        order = order[(starts[:, None] + np.arange(length)).ravel()]
    rows = np.sort(order)
    times = column[rows].alias("time").to_frame()
    return Sample(rows, time_blocks(moments(times, "time"), TIME_BLOCKS))


def sample_evenly(units: Integers) -> Sample:
    """Evenly spaced rows with the units of the contract's split."""
    rows = spread_rows(len(units), MOST_ROWS)
    return Sample(rows, _numbered(units[rows]))


def folds_of_units(units: Integers, seed: int) -> Integers:
    """Fold of each row, keeping units together."""
    sizes = np.bincount(units)
    keys = random_keys(len(sizes), seed, "experiment folds")
    return fill_bins(sizes, [len(units) / FOLDS] * FOLDS, keys)[units]


def folds_in_order(units: Integers) -> Integers:
    """Fold of each row, keeping neighbouring units together."""
    found: Integers = units * FOLDS // (int(units.max(initial=0)) + 1)
    return found


def shuffled(folds: Integers, seed: int) -> Integers:
    """Folds of the same sizes, drawn at random."""
    keys = random_keys(len(folds), seed, "experiment random")
    return folds[np.argsort(keys, kind="stable")]


def _numbered(units: Integers) -> Integers:
    return np.unique(units, return_inverse=True)[1].astype(np.int64)
