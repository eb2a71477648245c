"""Overfitting and underfitting, detected from training and validation losses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import NamedTuple

from trainwright.core.formatting import show_number

_FEWEST = 6
_LEAST_RISE = 0.02
_LEAST_GAIN = 0.1
_NOISES = 4.0
_SECOND_DIFFERENCE = 0.6745 * math.sqrt(6)
"""Median |second difference| of Gaussian noise, in standard deviations."""


class ValidationLoss(NamedTuple):
    """One validation: its step, its loss, and the mean training loss since the previous
    validation."""

    step: int
    validation: float
    training: float


class Fit(NamedTuple):
    """Diagnosis of the losses: a word, a sentence, and its numbers."""

    kind: str
    message: str
    numbers: Mapping[str, float]


def name_fit(scored: Sequence[ValidationLoss], *, is_at_its_end: bool) -> tuple[Fit, ...]:
    """Overfitting or underfitting, if the losses show it beyond their noise; at most one.

    With b the mean of the best validation loss and its neighbours, e that of the last three and s
    the standard deviation of their noise (from second differences, so that a trend does not count):
    overfitting if e - b is over 4 s and over 2% of b, and the training loss fell meanwhile by over
    2 of its own s. Underfitting if the training ran to its full length, the best validation is one
    of the last three, the last third of the validations brought over a tenth of the total decrease
    and over 4 s, and the training loss is no lower than nine tenths of the validation loss.
    Goodfellow, Bengio and Courville 2016, "Deep Learning", section 5.2. Fewer than six validations
    are not judged.
    """
    finite = [one for one in scored if math.isfinite(one.validation + one.training)]
    if len(finite) < _FEWEST:
        return ()
    losses = [one.validation for one in finite]
    at = losses.index(min(losses))
    if at < len(finite) - 3:
        return _overfitting(finite, at)
    return _underfitting(finite, _noise(losses)) if is_at_its_end else ()


def _overfitting(scored: Sequence[ValidationLoss], at: int) -> tuple[Fit, ...]:
    around, end = scored[max(0, at - 1) : at + 2], scored[-3:]
    before, now = (fmean(one.validation for one in part) for part in (around, end))
    learned, fitted = (fmean(one.training for one in part) for part in (around, end))
    noise = _noise([one.validation for one in scored])
    least = max(_NOISES * noise, _LEAST_RISE * abs(before))
    fallen = learned - fitted > 2 * _noise([one.training for one in scored])
    if now - before <= least or not fallen:
        return ()
    return (
        Fit(
            "overfitting",
            f"overfitting since step {scored[at].step:,}: the validation loss rose from "
            f"{show_number(before)} to {show_number(now)}, while the training loss fell from "
            f"{show_number(learned)} to {show_number(fitted)}. Add rows, augmentation, dropout or "
            "weight decay, or use a smaller model",
            {"best_step": float(scored[at].step), "best": before, "loss": now},
        ),
    )


def _underfitting(scored: Sequence[ValidationLoss], noise: float) -> tuple[Fit, ...]:
    first, last = scored[0], scored[-1]
    then = scored[-1 - len(scored) // 3].validation
    gain, whole = then - last.validation, first.validation - last.validation
    if gain <= max(_LEAST_GAIN * whole, _NOISES * noise) or whole <= 0:
        return ()
    if last.training < 0.9 * last.validation:
        return ()
    return (
        Fit(
            "underfitting",
            "underfitting: the training and validation losses "
            f"({show_number(last.training)} and {show_number(last.validation)}) were still falling "
            f"when the training ended: the last third brought {gain / whole:.0%} of the total "
            "decrease. Train longer, raise the learning rate, or use a larger model",
            {"loss": last.validation, "gain": gain},
        ),
    )


def _noise(losses: Sequence[float]) -> float:
    """Standard deviation of the losses from a smooth curve."""
    second = [after - before for before, after in pairwise([b - a for a, b in pairwise(losses)])]
    return median(map(abs, second)) / _SECOND_DIFFERENCE
