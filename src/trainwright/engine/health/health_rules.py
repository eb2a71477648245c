"""Health rules: signs of failing training, each with a formula, a threshold and its source.

A rule looks at the loss history and at the numbers of the newest window, and returns evidence or
None. Thresholds are set so that no rule fires on the clean runs of `benchmarks/trouble.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from trainwright.engine.health.loss_history import SEGMENT, LossHistory


class Evidence(NamedTuple):
    """Finding of a rule: a sentence, and the numbers in it."""

    message: str
    numbers: Mapping[str, float]


Sign = Callable[[LossHistory, Mapping[str, float]], Evidence | None]


def divergence(history: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """Divergence: the loss has risen above its start, has lost half of its improvement, or jumped
    in the first steps and not recovered.

    With the median loss of a segment m, the start L, the best segment b and the noise s (the larger
    of the current and the first): m > L + 2 s + |L| / 10, or m > b + (L - b) / 2 + 3 s after a fall
    L - b of at least 3 s, rising for three segments. AUTOTRAINER (Zhang et al. 2021, ICSE) calls a
    loss above 1,000 exploding; a rise over the start is detected at any scale. A loss that jumps in
    the first steps takes L and s with it; then the criterion is that the very first loss, from
    before any update, lies below each loss of the last three segments, and below m / 3.
    """
    if history.steps < 3 * SEGMENT or len(history.last) < 3:
        return None
    now, noise = history.now.loss, max(history.now.noise, history.first.noise)
    best = min(history.best, history.start)
    start, won = history.start, history.start - history.best
    rises = all(a.loss < b.loss for a, b in pairwise(history.last[-3:]))
    above = now > start + 2 * noise + 0.1 * abs(start)
    lost = won > 3 * noise and rises and now > history.best + won / 2 + 3 * noise
    leapt = _leapt(history)
    if leapt:
        start, best = history.origin, min(best, history.origin)
    if not (above or lost or leapt):
        return None
    return Evidence(
        f"the loss diverges: {now:.4g} over the last {SEGMENT} steps, {start:.4g} at the start, at "
        f"best {best:.4g}{_exploded(history)}. Lower the learning rate, use a longer warmup, or "
        "clip the gradient",
        {"loss": now, "start": start, "best": best},
    )


def _leapt(history: LossHistory) -> bool:
    """Is every loss of the last three segments above the one before the first update?"""
    if history.steps < 4 * SEGMENT:
        return False
    least = min(segment.least for segment in history.last[-3:])
    return 0 < history.origin < least and history.now.loss > 3 * history.origin


def leap(history: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The loss exploded within the first 50 steps, see `LossHistory`; reported after them."""
    step, loss, before = history.leap
    if not step or history.steps > SEGMENT:
        return None
    return Evidence(
        f"the loss exploded at step {step}: {loss:.4g}, {before:.4g} before. The learning rate is "
        "too high: lower it, or use a longer warmup",
        {"exploded_at": float(step), "loss": loss, "before": before},
    )


def _exploded(history: LossHistory) -> str:
    return f"; it exploded at step {history.leap.step}" if history.leap.step else ""


def explosion(history: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """Exploding gradients: the norm is over 100 times that of the first segment, and the loss is no
    lower than at the start."""
    now, first = history.now, history.first
    if now.norm <= 100 * first.norm or now.loss < history.start - now.noise:
        return None
    return Evidence(
        f"the gradient explodes: its norm is {now.norm:.3g}, {first.norm:.3g} in the first steps. "
        "Clip it, lower the learning rate, or add norms between the layers",
        {"gradient_norm": now.norm, "first": first.norm},
    )


def oscillation(history: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """Oscillation: the loss swings and does not fall.

    Either each step undoes the one before: in a segment the loss turns in at least 85% of all steps
    (2/3 for noise; 85% is three standard deviations above), and a step changes it by 15% of its
    start. Or it swings in waves: over 200 steps the medians of five losses go up and down four
    times or more, each time by at least a fifth of the start and four times the noise. AUTOTRAINER
    counts swings of the accuracy by 0.03 in a fifth of the epochs; here a sign change within the
    noise does not count. A loss that falls while it swings is at the edge of stability (Cohen et
    al. 2021, arXiv:2103.00065), which is harmless.
    """
    now = history.now
    if len(history.last) < 4 or now.loss < 0.95 * history.last[0].loss:
        return None
    scale = abs(history.start)
    zigzag = now.turns >= 0.85 and now.noise > 0.15 * scale
    noise = max(segment.noise for segment in history.last)
    pieces = [piece for segment in history.last for piece in segment.pieces]
    swings = _swings(pieces, max(0.2 * scale, 4 * noise))
    if not (zigzag or swings >= 4):
        return None
    low, high = min(pieces), max(pieces)
    return Evidence(
        f"the loss oscillates between {low:.4g} and {high:.4g} and does not fall. Lower the "
        "learning rate or the momentum, or take larger steps",
        {"low": low, "high": high, "swings": float(swings), "turns": now.turns},
    )


def plateau(history: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """Plateau: the loss has not moved since the first step.

    After the equivalent of 300 steps at the full learning rate the loss has fallen by less than a
    hundredth of its start, beyond doubt: fall + 2 e < |L| / 100, where the error e of both medians
    is s sqrt(1.57 / 10 + 1.57 / 50) for noise s. A loss that is mostly noise cannot be judged, and
    is not; one that has risen by a fiftieth is no plateau. TheDeepChecker (Ben Braiek and Khomh
    2022) checks for a stagnant loss.
    """
    if history.worth < 300:
        return None
    now = history.now
    error = max(now.noise, history.first.noise) * math.sqrt(1.57 / 10 + 1.57 / 50)
    least = min(segment.loss for segment in history.last)
    fallen = history.start - min(least, history.best)
    little = 0.01 * abs(history.start)
    if fallen + 2 * error >= little or now.loss > history.start + 2 * little:
        return None
    return Evidence(
        f"the model is not learning: the loss is {now.loss:.5g} after {history.steps:,} steps, "
        f"{history.start:.5g} at the start. Check the learning rate, the labels, and whether a "
        "gradient reaches every layer",
        {"loss": now.loss, "start": history.start},
    )


def vanishing(history: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """Vanishing gradients: the gradient of a layer group is below a thousandth of that of the last
    one, and below 0.0001: beta 1 and beta 2 of AUTOTRAINER (Zhang et al. 2021, ICSE). Dead units,
    which pass no gradient either, and a loss that has risen are reported by their own rules
    instead."""
    groups = _layers(numbers)
    if len(groups) < 2 or _dead_layer(numbers) or not _stands_still(history):
        return None
    last = numbers[f"gradient_norm/{groups[-1]}"]
    norms = {group: numbers[f"gradient_norm/{group}"] for group in groups[:-1]}
    small = {group: norm for group, norm in norms.items() if norm < min(1e-4, last / 1000)}
    if not small:
        return None
    worst = min(small, key=lambda group: small[group])
    return Evidence(
        f"vanishing gradient: norm {small[worst]:.2g} in {worst} ({len(small)} of "
        f"{len(groups)} layer groups), {last:.2g} in {groups[-1]}. Replace "
        "sigmoid and tanh by ReLU or GELU, add normalization layers, or skip connections",
        {"gradient_norm": small[worst], "last": last, "groups": float(len(small))},
    )


def dead_units(history: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """Dead units: at least 70% of the units of a layer get no gradient from any row (AUTOTRAINER's
    gamma), while the loss is above a fifth of its start: near 0 few rows have any gradient to give.
    Of several layers the last one is reported, since it blocks the gradient of those before it.
    After a loss jump the cause is the learning rate, and `learning_rate_high` reports it."""
    layer = _dead_layer(numbers)
    if not layer or history.now.loss < 0.2 * history.start or _has_leapt(history):
        return None
    share = numbers[f"dead_share/{layer}"]
    return Evidence(
        f"{share:.0%} of the units of a layer in {layer} are dead: no row gives them a gradient. "
        "Lower the learning rate, or use GELU or a leaky ReLU",
        {"dead_share": share},
    )


def _dead_layer(numbers: Mapping[str, float]) -> str:
    """Last layer group with at least 70% dead units; empty if there is none."""
    dead = [group for group in _layers(numbers) if numbers[f"dead_share/{group}"] >= 0.7]
    return dead[-1] if dead else ""


def _has_leapt(history: LossHistory) -> bool:
    """Did the loss explode at the start, or was the run rolled back?"""
    return bool(history.leap.step or history.rollbacks)


def learning_rate_low(history: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """Learning rate too low: the median layer group changes by less than 0.00001 of its weights per
    step, at a learning rate near its peak, and the loss has hardly moved; 0.001 is usual (Karpathy
    2022, "Neural networks: zero to hero", lecture 4)."""
    ratio = _middle_ratio(numbers)
    if not ratio < 1e-5 or history.worth < 100 or not _is_at_peak(history) or _has_learned(history):
        return None
    return Evidence(
        f"the learning rate looks too low: a step changes the weights by {ratio:.1g} of their "
        "norm; about 0.001 is usual",
        {"update_ratio": ratio},
    )


def learning_rate_high(history: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """Learning rate too high: the median layer group changes by more than 0.03 of its weights per
    step, and the loss is no lower than at the start. Or 70% of the units of a layer have died after
    a loss jump."""
    layer = _dead_layer(numbers)
    if layer and _has_leapt(history) and history.now.loss >= 0.2 * history.level:
        share = numbers[f"dead_share/{layer}"]
        return Evidence(
            f"the learning rate is too high: the loss jumped{_at_step(history)}, and {share:.0%} "
            f"of the units of a layer in {layer} have been dead since",
            {"dead_share": share},
        )
    ratio = _middle_ratio(numbers)
    if not ratio > 0.03 or history.steps < 3 * SEGMENT or _has_learned(history):
        return None
    return Evidence(
        f"the learning rate looks too high: a step changes the weights by {ratio:.2g} of their "
        "norm; about 0.001 is usual",
        {"update_ratio": ratio},
    )


def lost_updates(history: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """Lost updates: a trained layer group changes by less than 1e-7 of its weights at a learning
    rate near its peak, while the median one changes: fp32 resolves 6e-8, so most of the update is
    lost to rounding."""
    moves = _middle_ratio(numbers) >= 1e-5
    if not (moves and _is_at_peak(history) and history.worth >= 100):
        return None
    ratios = {group: numbers[f"update_ratio/{group}"] for group in _layers(numbers)}
    still = [group for group, ratio in ratios.items() if ratio < 1e-7]
    if not still:
        return None
    return Evidence(
        f"{still[0]} ({len(still)} of {len(ratios)} layer groups) does not change: a step moves "
        f"its weights by {ratios[still[0]]:.1g} of their norm. Freeze it, or find the cause",
        {"update_ratio": ratios[still[0]], "groups": float(len(still))},
    )


def _stands_still(history: LossHistory) -> bool:
    """Is the loss neither below half of its start nor above it by more than a fifth plus noise?"""
    now, start = history.now, history.start
    above = start + 0.2 * abs(start) + 2 * max(now.noise, history.first.noise)
    return start / 2 <= now.loss <= above


def _at_step(history: LossHistory) -> str:
    return f" at step {history.leap.step}" if history.leap.step else " and the run was rolled back"


def _layers(numbers: Mapping[str, float]) -> list[str]:
    """Trained groups with a linear layer or a convolution, ordered from the input."""
    named = [name.partition("/") for name in numbers]
    groups = [group for what, _, group in named if what == "dead_share"]
    return [group for group in groups if f"gradient_norm/{group}" in numbers]


def _middle_ratio(numbers: Mapping[str, float]) -> float:
    ratios = [numbers[f"update_ratio/{group}"] for group in _layers(numbers)]
    return median(ratios) if ratios else math.nan


def _is_at_peak(history: LossHistory) -> bool:
    return history.now.rate >= 0.5 * history.peak_rate


def _has_learned(history: LossHistory) -> bool:
    """Is the loss below its start by more than a twentieth, or by more than its noise?"""
    fallen = history.start - history.now.loss
    return fallen > min(0.05 * abs(history.start), max(history.now.noise, history.first.noise))


def _swings(values: Sequence[float], size: float) -> int:
    """Number of reversals of at least `size`."""
    turned, direction, extreme = 0, 0, values[0]
    for value in values:
        falls = direction >= 0 and value < extreme - size
        rises = direction <= 0 and value > extreme + size
        if falls or rises:
            turned += 1
            direction, extreme = (1 if rises else -1), value
        elif (value - extreme) * direction > 0:
            extreme = value
    return turned
