"""Label noise, class imbalance, rare classes, and serial dependence of the target.

Label noise is the excess of unlikely labels over calibrated out-of-sample predictions. Where
classes overlap, an unlikely label is not an error: it occurs with its calibrated probability
p. Two models of unlikely labels are compared, with s the out-of-sample log-odds of a class:

    overlap:  P(label | s) = sigmoid(a s + b)
    noise:    P(label | s) = e + (1 - 2 e) sigmoid(a s + b)

Recalibration (a, b) corrects over- and underconfidence. Under overlap alone the probability
vanishes as the log-odds fall; under noise it stays at e, however unlikely the class. The likelihood
ratio tests for noise, the profile likelihood bounds its rate from below, and e / P is the
probability that a label comes from it. Labels drawn from probabilities of at most 0.89 everywhere,
or from nearly the same one everywhere, cannot be distinguished from noise; the former are never
called wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.key_paths import as_key
from trainwright.core.formatting import many
from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.messages import some
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding

_LEAST_SLOPE, _LEAST_SLOPE_APART, _MOST_SLOPE = 0.5, 0.75, 3.0
"""Calibrated predictions have slope 1; with few rows, many columns and overlapping classes, 0.5."""

APART = 0.12
"""Classes are separable if the models' error rate is at most this."""

_SHIFTS = (-6.0, 6.0)
_LEAST, _MOST = 1e-7, 0.11
_CLIP = 1e-9
_FEWEST_UNLIKELY = 3
_MOST_PAIRS = 20_000
_STEP = 0.01
"""Bin width of the log-odds where there are more pairs."""

_LOWER_END = 2.71
"""Twice the difference of log-likelihoods at the lower end of a one-sided interval of 95%."""

_HALVINGS = 12

Bits = npt.NDArray[np.bool_]


@final
@dataclass(frozen=True, slots=True)
class LabelNoise:
    """Fitted label noise. `evidence` is twice the log-likelihood ratio of noise to overlap alone,
    `chances` [N] the probability that each label is wrong, `least` the lower confidence bound of
    the noise rate over its estimate.
    """

    evidence: float
    chances: Floats
    least: float


@final
@dataclass(frozen=True, slots=True)
class _Pairs:
    """(row, class) pairs of classes other than the likeliest: log-odds, whether the class is the
    label, and multiplicity."""

    log_odds: Floats
    is_label: Bits
    weights: Floats
    least_slope: float


@final
@dataclass(frozen=True, slots=True)
class _Fit:
    loss: float
    slope: float
    shift: float
    noise: float

    def rate(self, log_odds: Floats) -> Floats:
        """The probability of the label at these log-odds."""
        from scipy.special import expit

        overlap = expit(self.slope * log_odds + self.shift)
        rate: Floats = self.noise + (1 - 2 * self.noise) * overlap
        return rate


def label_noise(given: Integers, chances: Floats) -> LabelNoise:
    """Fit label noise to labels int64 [N] and out-of-sample probabilities [N, K]."""
    nothing = LabelNoise(0.0, np.zeros(len(given)), 0.0)
    clipped = np.clip(chances, _CLIP, 1 - _CLIP)
    log_odds = np.log(clipped) - np.log1p(-clipped)
    rows, classes = np.nonzero(np.arange(chances.shape[1]) != chances.argmax(axis=1)[:, None])
    is_label = given[rows] == classes
    if int(is_label.sum()) < _FEWEST_UNLIKELY:
        return nothing
    apart = float((chances.argmax(axis=1) != given).mean()) <= APART
    least_slope = _LEAST_SLOPE_APART if apart else _LEAST_SLOPE
    pairs = _paired(log_odds[rows, classes], is_label, least_slope)
    overlap, noisy = _fit(pairs, 0.0), _fit_noise(pairs)
    most = _MOST / (chances.shape[1] - 1)
    if noisy.noise > most or noisy.loss >= overlap.loss:
        return nothing
    wrong = np.zeros(len(given))
    unlikely = log_odds[rows[is_label], classes[is_label]]
    wrong[rows[is_label]] = noisy.noise / noisy.rate(unlikely)
    evidence = 2 * (overlap.loss - noisy.loss)
    return LabelNoise(evidence, wrong, _lower_end(pairs, noisy) / noisy.noise)


def _paired(log_odds: Floats, is_label: Bits, least_slope: float) -> _Pairs:
    """All pairs; a large number is binned by log-odds, each bin at its mean."""
    if len(log_odds) <= _MOST_PAIRS:
        return _Pairs(log_odds, is_label, np.ones(len(log_odds)), least_slope)
    steps = 2 * np.round(log_odds / _STEP).astype(np.int64) + is_label
    found, step = np.unique(steps, return_inverse=True)
    counts = np.bincount(step).astype(np.float64)
    return _Pairs(np.bincount(step, log_odds) / counts, found % 2 == 1, counts, least_slope)


def _fit_noise(pairs: _Pairs) -> _Fit:
    """Maximum-likelihood fit with noise, bracketed on a logarithmic grid of rates."""
    from scipy.optimize import minimize_scalar

    def loss(log_noise: float) -> float:
        return _fit(pairs, float(np.exp(log_noise))).loss

    usual = float(pairs.weights @ pairs.is_label / pairs.weights.sum())
    ends = np.log(_LEAST), np.log(min(0.3, 2 * usual))
    found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-3})
    return _fit(pairs, float(np.exp(found.x)))


def _fit(pairs: _Pairs, noise: float) -> _Fit:
    """Maximum-likelihood recalibration at a given noise rate."""
    from scipy.optimize import minimize
    from scipy.special import expit

    s, y, w = pairs.log_odds, pairs.is_label, pairs.weights

    def loss(at: Floats) -> tuple[float, Floats]:
        overlap = expit(at[0] * s + at[1])
        rate = np.clip(noise + (1 - 2 * noise) * overlap, 1e-12, 1 - 1e-12)
        value = -float(w @ np.where(y, np.log(rate), np.log1p(-rate)))
        inner = -w * np.where(y, 1 / rate, -1 / (1 - rate))
        inner *= (1 - 2 * noise) * overlap * (1 - overlap)
        return value, np.array([inner @ s, inner.sum()])

    bounds = ((pairs.least_slope, _MOST_SLOPE), _SHIFTS)
    found = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B", bounds=bounds)
    return _Fit(float(found.fun), float(found.x[0]), float(found.x[1]), noise)


def _lower_end(pairs: _Pairs, best: _Fit) -> float:
    """Lower confidence bound of the noise rate, by profile likelihood."""
    low, high = np.log(_LEAST), np.log(best.noise)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_open = 2 * (_fit(pairs, float(np.exp(middle))).loss - best.loss) <= _LOWER_END
        low, high = (low, middle) if is_open else (middle, high)
    return float(np.exp(high))


_RATIO = 4.0
_STRONG_RATIO = 20.0
_RARE = 10
_FEWEST_IN_ORDER = 100
_EXCESS = 0.2
_MOST_CLASSES = 1000


def class_imbalance(data: ExaminedData) -> list[Finding]:
    """The largest class has at least four times the rows of the smallest."""
    counts = _counts(data)
    if len(counts) < 2:
        return []
    (common, most), (rare, least) = counts[0], counts[-1]
    ratio = most / least
    if ratio < _RATIO:
        return []
    strong = ratio >= _STRONG_RATIO
    total = sum(count for _, count in counts)
    return [
        Finding(
            "class_imbalance",
            "warning" if strong else "info",
            f"class {common!r} has {most:,} rows, class {rare!r} {least:,} ({least / total:.1%}): "
            f"{ratio:.1f} to 1",
            least,
            columns=(data.target,),
            fix="judge by average_precision or f1_macro, not accuracy; weigh the classes with "
            "model.class_weights: balanced (trees) or training.loss: {name: cross_entropy, "
            "class_weights: balanced} (networks)",
        )
    ]


def rare_class(data: ExaminedData) -> list[Finding]:
    """Classes of fewer than 10 rows: too few to train, split or evaluate on."""
    rare = [(name, count) for name, count in _counts(data) if count < _RARE]
    if not rare:
        return []
    names = [name for name, _ in rare]
    shown = some([f"{name!r} in {count}" for name, count in rare])
    return [
        Finding(
            "rare_class",
            "warning",
            f"{many(len(rare), 'class has', 'classes have')} fewer than {_RARE} rows: {shown}",
            sum(count for _, count in rare),
            data.places(data.labels.is_in(names).fill_null(False)),
            (data.target,),
            f"collect more, merge classes with data.columns.{as_key(data.target)}.values, "
            "or drop them",
        )
    ]


def ordered_target(data: ExaminedData) -> list[Finding]:
    """Serial dependence: the targets of adjacent rows agree far more often than by chance, so a
    random split leaks near copies. Rows sorted by class are exempt."""
    if data.task == "none" or len(data) < _FEWEST_IN_ORDER:
        return []
    is_sorted = data.task == "classes" and _is_sorted(data)
    alike = _alike_classes(data) if data.task == "classes" else _alike_numbers(data)
    if not alike:
        return []
    return [
        Finding(
            "ordered_target",
            "info" if is_sorted else "warning",
            alike,
            len(data),
            columns=(data.target,),
            fix="" if is_sorted else "use a time or group split: data.split",
        )
    ]


def _is_sorted(data: ExaminedData) -> bool:
    labels = data.labels.drop_nulls()
    return len(labels.rle()) <= 2 * labels.n_unique()


def _alike_classes(data: ExaminedData) -> str:
    labels = data.labels.drop_nulls()
    if len(labels) < _FEWEST_IN_ORDER or labels.n_unique() < 2:
        return ""
    same = float((labels[1:] == labels[:-1]).to_numpy().mean())
    shares = count_values(labels)["count"].to_numpy() / len(labels)
    chance = float((shares**2).sum())
    if same - chance < _EXCESS:
        return ""
    if _is_sorted(data):
        runs = len(labels.rle())
        return f"the rows are sorted by {data.target!r}: {runs} runs of one class each"
    return f"adjacent rows have the same class in {same:.1%} of the rows, {chance:.1%} by chance"


def _alike_numbers(data: ExaminedData) -> str:
    values = data.answers
    values = values[np.isfinite(values)]
    if len(values) < _FEWEST_IN_ORDER or not values.std():
        return ""
    centred = values - values.mean()
    correlation = float(centred[1:] @ centred[:-1] / (centred @ centred))
    if correlation < 0.5:
        return ""
    return f"the target of a row correlates {correlation:.2f} with that of the row before it"


def _counts(data: ExaminedData) -> list[tuple[str, int]]:
    """Rows of each class, the commonest first."""
    if data.task != "classes":
        return []
    counts = count_values(data.labels.drop_nulls())
    if counts.height > _MOST_CLASSES:
        return []
    return list(zip(counts["value"].to_list(), counts["count"].to_list(), strict=True))
