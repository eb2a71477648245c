"""Non-linear dependence between two columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.inputs import Floats, Integers

LEAK, SUSPICIOUS = 0.97, 0.9
"""Shares of the target explained by one feature. The strongest legitimate feature observed explains
0.66 (penguin flippers), another form of the target 0.9 (the motor part of a score). A feature that
determines the target explains less than 1 if it is coarse, discontinuous or noisy."""

MADE_OF = 0.97
"""Share of a feature explained by the target from which it counts as derived from it. Legitimate
features observed stay below 0.75."""

_BESIDE = 2
_ROWS_PER_VALUE = 5
_FEWEST_ROWS = 50
_MOST_CODES = 200
_FEWEST_MOMENTS, _FEWEST_CHANGES = 10, 200
_FAR_SHARE, _FEWEST_FAR, _MOST_FAR = 0.05, 3, 20
"""How many rows a relation must hold without: those of a total, of subtotals, of slips."""


def told_share(values: pl.Series, target: pl.Series) -> float:
    """Share of the target (String labels or numbers) explained by a numeric or categorical
    feature."""
    if values.dtype == pl.String and not repeats(values):
        return 0.0
    return (told_classes if target.dtype == pl.String else told_numbers)(values, target)


def made_share(values: pl.Series, target: pl.Series) -> float:
    """Share of a feature explained by the target, which also catches non-invertible functions such
    as a bin of the target or its distance from the mean. 0 for a target of few values, which
    explains any coarser column."""
    if repeats(target) or values.n_unique() < 2:
        return 0.0
    return (told_classes if values.dtype == pl.String else told_numbers)(target, values)


def told_numbers(known: pl.Series, wanted: pl.Series) -> float:
    """Share of the variance of `wanted` explained by `known`: R2 of the mean over the four nearest
    neighbours in the order of `known`, or over all other rows of the same value where values
    repeat. 1 for any smooth function, near 0 or below for an uninformative column. A few rows far
    from all others do not raise it."""
    both = _present(known, wanted)
    if both.height < _FEWEST_ROWS:
        return 0.0
    values = both["wanted"].cast(pl.Float64).to_numpy()
    guesses = _means(both["known"], values[:, None])[:, 0]
    told = np.isfinite(guesses)
    values, guesses = values[told], guesses[told]
    if len(values) < _FEWEST_ROWS:
        return 0.0
    share = _explained(values, guesses)
    if share <= SUSPICIOUS:
        return share
    others = ~far_rows(values[:, None])
    # A target that varies in these rows alone has nothing else to tell.
    return (
        min(share, _explained(values[others], guesses[others])) if np.ptp(values[others]) else share
    )


def far_rows(values: Floats) -> npt.NDArray[np.bool_]:
    """The few rows of values [N, C] that lie farthest from the medians, in deviations: a twentieth,
    between 3 and 20. A dependence that rests on one row of totals, or a handful of slips, is no
    relation of the columns."""
    away = np.abs(values - np.median(values, axis=0)) / np.maximum(values.std(axis=0), 1e-300)
    few = int(np.clip(_FAR_SHARE * len(values), _FEWEST_FAR, _MOST_FAR))
    far = np.zeros(len(values), dtype=np.bool_)
    far[np.argsort(away.max(axis=1), kind="stable")[-few:]] = True
    return far


def _explained(values: Floats, guesses: Floats) -> float:
    """R2 of guesses [N] of values [N]; 0 where these are all equal."""
    spread = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - guesses) ** 2).sum()) / spread if spread else 0.0


def told_classes(known: pl.Series, wanted: pl.Series) -> float:
    """The same for classes: the share of the rows outside the majority class that the neighbours
    predict correctly, net of wrong predictions."""
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
    """Do values have at least five rows on average?"""
    return series.n_unique() * _ROWS_PER_VALUE <= len(series)


def _mean_of_others(codes: Integers, values: Floats) -> Floats:
    """Leave-one-out mean of `values` [N, C] by code; nan for singletons."""
    counts = np.bincount(codes).astype(np.float64)
    sums = np.stack([np.bincount(codes, one) for one in values.T], axis=1)
    left = counts[codes] - 1
    means = (sums[codes] - values) / np.maximum(left, 1)[:, None]
    means[left == 0] = np.nan
    return means


def _means(known: pl.Series, values: Floats) -> Floats:
    """Mean over the neighbours of each row, [N, C]."""
    codes = known.rank("dense").cast(pl.Int64).to_numpy() - 1
    if repeats(known):
        return _mean_of_others(codes, values)
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
    """Label codes, int64 [N]; with very many labels the rare ones share one, so that indicators fit
    into memory."""
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
    """One-hot indicators of codes, float64 [N, C]."""
    columns: Floats = (codes[:, None] == np.arange(int(codes.max()) + 1)).astype(np.float64)
    return columns


def _present(known: pl.Series, wanted: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"known": known, "wanted": wanted}).drop_nulls()


def as_numbers(target: pl.Series) -> Floats:
    """A target as numbers, float64 [N, C]: itself, or one-hot classes; those beyond the 200 most
    frequent share a column."""
    if target.dtype == pl.String:
        return _indicators(_codes(target))
    return target.cast(pl.Float64).to_numpy()[:, None]


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
