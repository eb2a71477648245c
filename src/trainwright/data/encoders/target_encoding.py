"""Target encoding: category means, shrunk towards the overall mean, with cross-fitting.

Micci-Barreca 2001, "A preprocessing scheme for high-cardinality categorical attributes in
classification and prediction problems", doi:10.1145/507533.507538: equation 3 with the weights
n / (n + m), or with those of equation 5 (empirical Bayes). Prokhorenkova et al. 2018,
arXiv:1706.09516, section 3.2, say why a training row must not see its own target: the encoding of a
rare category would be the target itself. Here it gets the means of the other folds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.categories import Vocabulary
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import Target

Smoothing = Literal["variance"] | float


@final
@dataclass(frozen=True, slots=True)
class TrainTarget:
    """What is averaged: `values` [N, K] of the training rows with a name each (empty where there is
    one), and the fold of each row, int64 [N]."""

    values: Floats
    names: tuple[str, ...]
    folds: Integers


@final
@dataclass(frozen=True, slots=True)
class TargetMeans:
    """The mean targets [codes, K] of a column's categories, as all training rows give them; for
    validation, test and new rows."""

    vocabulary: Vocabulary
    labels: tuple[str, ...]
    means: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """The K numeric columns."""
        name = self.vocabulary.name
        return tuple(f"{name} (mean of {one})" if one else f"{name} (mean)" for one in self.labels)

    def values(self, labels: pl.Series) -> Floats:
        """[N, K]; a category that no training row has gets the mean of all."""
        return self.means[self.vocabulary.encode(labels)]

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "vocabulary": self.vocabulary.to_json(),
            "labels": list(self.labels),
            "means": self.means.tolist(),
        }

    @classmethod
    def from_json(cls, value: Json) -> TargetMeans:
        """The means that `to_json` wrote."""
        means = np.array(value["means"], dtype=np.float64)
        return cls(Vocabulary.from_json(value["vocabulary"]), tuple(value["labels"]), means)


def train_target(
    target: Target, encoded: Floats | Integers, units: Integers, folds: int, seed: int
) -> TrainTarget:
    """The values of a number, the share of the positive of two classes, or that of each class. Rows
    of one unit share a fold; which one is a function of the seed."""
    values, names = target.category_values(encoded)
    found, places = np.unique(units, return_inverse=True)
    order = np.random.Generator(np.random.PCG64([seed, 0x666F6C64])).permutation(len(found))
    return TrainTarget(values, names, (order % folds)[places])


def fit_means(codes: Integers, values: Floats, cardinality: int, smoothing: Smoothing) -> Floats:
    """Mean targets [cardinality, K] of rows with these codes [N] and values [N, K].

    A category with n rows, mean t and variance v gets w t + (1 - w) T, where T is the mean of all:
    w = n / (n + m), with m given or, for `variance`, v over the variance of all.
    """
    mean = values.mean(axis=0)
    apart = values - mean
    count = np.bincount(codes, minlength=cardinality).astype(np.float64)[:, None]
    own = _by_code(codes, apart, cardinality) / np.maximum(count, 1)
    if smoothing == "variance":
        within = _by_code(codes, (apart - own[codes]) ** 2, cardinality) / np.maximum(count, 1)
        total = (apart**2).mean(axis=0)
        parts = total * count + within
        weight = np.divide(total * count, parts, out=np.zeros_like(parts), where=parts > 0)
    else:
        weight = count / np.maximum(count + smoothing, np.finfo(np.float64).tiny)
    return np.asarray(mean + weight * own)


def cross_fitted(
    codes: Integers, train: TrainTarget, cardinality: int, smoothing: Smoothing
) -> Floats:
    """[N, K]: each training row with the means that the rows of all other folds give."""
    out = np.empty_like(train.values)
    for fold in np.unique(train.folds):
        inside = train.folds == fold
        if inside.all():
            # One group alone: there are no other rows, so the mean of all is used for none.
            out[inside] = train.values.mean(axis=0)
            continue
        means = fit_means(codes[~inside], train.values[~inside], cardinality, smoothing)
        out[inside] = means[codes[inside]]
    return out


def _by_code(codes: Integers, values: Floats, cardinality: int) -> Floats:
    sums = [np.bincount(codes, column, minlength=cardinality) for column in values.T]
    return np.stack(sums, axis=1)
