"""How much one column tells of another, whatever the form of the relation."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.data.base.table import Floats, Integers

LEAK, SUSPICIOUS = 0.97, 0.9
"""Shares of the target that one feature tells. The most telling honest feature at hand tells 0.66
(the flippers of a penguin), another form of the target 0.9 (the motor part of a score). What
determines the target tells less than 1 where it is coarse, jumps, or was mistyped."""

MADE_OF = 0.97
"""The share of a feature that the target tells, from which the feature was made of it. Honest
features at hand stay below 0.75."""

_BESIDE = 2
_ROWS_PER_VALUE = 5
_FEWEST_ROWS = 50
_MOST_CODES = 200


def told_share(values: pl.Series, target: pl.Series) -> float:
    """How much a feature of numbers or words tells of the target, String labels or numbers."""
    if values.dtype == pl.String and not repeats(values):
        return 0.0
    return (told_classes if target.dtype == pl.String else told_numbers)(values, target)


def made_share(values: pl.Series, target: pl.Series) -> float:
    """How much the target tells of a feature: also of one that does not say it back, as a band of
    the target or its distance from the mean. Of a target that has few values anything that varies
    less is told, which shows nothing: 0."""
    if repeats(target) or values.n_unique() < 2:
        return 0.0
    return (told_classes if values.dtype == pl.String else told_numbers)(target, values)


def told_numbers(known: pl.Series, wanted: pl.Series) -> float:
    """How much of the variance of `wanted` the rows beside each row tell in the order of `known`:
    R2 of the mean of the four nearest others, or of all others with the same value where values
    repeat. 1 for any function that is not rough, near 0 or below for a useless column."""
    both = _present(known, wanted)
    if both.height < _FEWEST_ROWS:
        return 0.0
    values = both["wanted"].cast(pl.Float64).to_numpy()
    guesses = _means(both["known"], values[:, None])[:, 0]
    told = np.isfinite(guesses)
    values, guesses = values[told], guesses[told]
    if len(values) < _FEWEST_ROWS:
        return 0.0
    spread = float(((values - values.mean()) ** 2).sum())
    if not spread:
        return 0.0
    return 1 - float(((values - guesses) ** 2).sum()) / spread


def told_classes(known: pl.Series, wanted: pl.Series) -> float:
    """The same for classes: the share of the rows outside the commonest class that the rows beside
    each row get right, net of those that they get wrong."""
    both = _present(known, wanted)
    if both.height < _FEWEST_ROWS:
        return 0.0
    codes = _codes(both["wanted"])
    votes = _means(both["known"], _indicators(codes))
    told = np.isfinite(votes[:, 0])
    codes, votes = codes[told], votes[told]
    if len(codes) < _FEWEST_ROWS:
        return 0.0
    others = len(codes) - int(np.bincount(codes).max())
    if not others:
        return 0.0
    wrong = int((votes.argmax(axis=1) != codes).sum())
    return (others - wrong) / others


def repeats(series: pl.Series) -> bool:
    """Whether values have on average five rows."""
    return series.n_unique() * _ROWS_PER_VALUE <= len(series)


def mean_of_others(codes: Integers, values: Floats) -> Floats:
    """The mean of `values` [N, C] over the other rows of the same code; nan without any."""
    counts = np.bincount(codes).astype(np.float64)
    sums = np.stack([np.bincount(codes, one) for one in values.T], axis=1)
    left = counts[codes] - 1
    means = (sums[codes] - values) / np.maximum(left, 1)[:, None]
    means[left == 0] = np.nan
    return means


def mean_of_all(codes: Integers, values: Floats) -> Floats:
    """The mean of `values` [N, C] over the rows of the same code."""
    counts = np.bincount(codes).astype(np.float64)
    sums = np.stack([np.bincount(codes, one) for one in values.T], axis=1)
    means: Floats = sums[codes] / counts[codes][:, None]
    return means


def _means(known: pl.Series, values: Floats) -> Floats:
    """The mean of the rows beside each row, [N, C]."""
    codes = known.rank("dense").cast(pl.Int64).to_numpy() - 1
    if repeats(known):
        return mean_of_others(codes, values)
    order = np.argsort(codes, kind="stable")
    ranked = np.pad(values[order], ((_BESIDE, _BESIDE), (0, 0)))
    there = np.pad(np.ones(len(values)), _BESIDE)
    total, count = np.zeros_like(values), np.zeros(len(values))
    for shift in (*range(-_BESIDE, 0), *range(1, _BESIDE + 1)):
        at = slice(_BESIDE + shift, _BESIDE + shift + len(values))
        total += ranked[at]
        count += there[at]
    means = np.empty_like(values)
    means[order] = total / count[:, None]
    return means


def _codes(labels: pl.Series) -> Integers:
    """The number of each label, int64 [N]: of very many labels the rare ones share one, so that a
    column for each fits into memory."""
    codes = labels.rank("dense").cast(pl.Int64).to_numpy() - 1
    sizes = np.bincount(codes)
    if len(sizes) <= _MOST_CODES:
        return codes
    number = np.full(len(sizes), _MOST_CODES)
    commonest = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_CODES])
    number[commonest] = np.arange(_MOST_CODES)
    folded: Integers = number[codes]
    return folded


def _indicators(codes: Integers) -> Floats:
    """One column of 0 and 1 for each code, float64 [N, C]."""
    columns: Floats = (codes[:, None] == np.arange(int(codes.max()) + 1)).astype(np.float64)
    return columns


def _present(known: pl.Series, wanted: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"known": known, "wanted": wanted}).drop_nulls()


def as_numbers(target: pl.Series) -> Floats:
    """A target as numbers, float64 [N, C]: itself, or one column of 0 and 1 a class; the classes
    beyond the 200 commonest share one."""
    if target.dtype == pl.String:
        return _indicators(_codes(target))
    return target.cast(pl.Float64).to_numpy()[:, None]
