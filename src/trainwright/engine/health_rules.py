"""Signs of a training that goes wrong: each a formula, a threshold and where it comes from.

A sign looks at the course of the loss and at the numbers of the newest window, and says what it
sees, or nothing. Thresholds are set so that `benchmarks/trouble.py` tells nothing of clean runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from trainwright.engine.loss_history import STRETCH, LossHistory


class Evidence(NamedTuple):
    """What a sign sees: a sentence, and the numbers in it."""

    message: str
    numbers: Mapping[str, float]


Sign = Callable[[LossHistory, Mapping[str, float]], Evidence | None]


def divergence(course: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The loss has risen above its start, has given back half of what it had won, or leapt up in
    the first steps and has not come back.

    With the median loss of a stretch m, the start L, the best stretch b and the noise s (the larger
    of now and the first): m > L + 2 s + |L| / 10, or m > b + (L - b) / 2 + 3 s after a fall L - b
    of at least 3 s, rising for three stretches. AUTOTRAINER (Zhang et al. 2021, ICSE) calls
    it exploding from a loss of 1,000 on; a rise over the start is seen at any scale. A loss that
    leaps in the first steps takes L and s with it; then the very first loss, from before any
    update, lies under each loss of the last three stretches, and under m / 3.
    """
    if course.steps < 3 * STRETCH or len(course.last) < 3:
        return None
    now, noise = course.now.loss, max(course.now.noise, course.first.noise)
    best = min(course.best, course.start)
    start, won = course.start, course.start - course.best
    rises = all(a.loss < b.loss for a, b in pairwise(course.last[-3:]))
    above = now > start + 2 * noise + 0.1 * abs(start)
    lost = won > 3 * noise and rises and now > course.best + won / 2 + 3 * noise
    leapt = _leapt(course)
    if leapt:
        start, best = course.origin, min(best, course.origin)
    if not (above or lost or leapt):
        return None
    return Evidence(
        f"the loss diverges: {now:.4g} over the last {STRETCH} steps, {start:.4g} at the start, at "
        f"best {best:.4g}{_exploded(course)}. Lower the learning rate, lengthen its warmup, or "
        "clip the gradient",
        {"loss": now, "start": start, "best": best},
    )


def _leapt(course: LossHistory) -> bool:
    """Whether every loss of the last three stretches is above the one before the first update."""
    if course.steps < 4 * STRETCH:
        return False
    least = min(stretch.least for stretch in course.last[-3:])
    return 0 < course.origin < least and course.now.loss > 3 * course.origin


def leap(course: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The loss exploded within the first 50 steps, see `LossHistory`; told after them."""
    step, loss, before = course.leap
    if not step or course.steps > STRETCH:
        return None
    return Evidence(
        f"the loss exploded at step {step}: {loss:.4g}, {before:.4g} before. The learning rate is "
        "too high: lower it, or lengthen its warmup",
        {"exploded_at": float(step), "loss": loss, "before": before},
    )


def _exploded(course: LossHistory) -> str:
    return f"; it exploded at step {course.leap.step}" if course.leap.step else ""


def explosion(course: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The gradient norm is over 100 times that of the first stretch, and the loss no lower than at
    the start: the layers multiply what passes through them."""
    now, first = course.now, course.first
    if now.norm <= 100 * first.norm or now.loss < course.start - now.noise:
        return None
    return Evidence(
        f"the gradient explodes: its norm is {now.norm:.3g}, {first.norm:.3g} in the first steps. "
        "Clip it, lower the learning rate, or add norms between the layers",
        {"gradient_norm": now.norm, "first": first.norm},
    )


def oscillation(course: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The loss swings and does not fall.

    Either each step undoes the one before: in a stretch the loss turns in at least 85% of all
    steps (2/3 are noise; 85% is three deviations above), and a step changes it by 15% of its start.
    Or it swings in waves: over 200 steps the medians of five losses go up and down four times or
    more, each time by at least a fifth of the start and four times the noise. AUTOTRAINER counts
    swings of the accuracy by 0.03 in a fifth of the epochs; a sign change of noise is none here. A
    loss that falls while it swings is at the edge of stability (Cohen et al. 2021,
    arXiv:2103.00065), which is no trouble.
    """
    now = course.now
    if len(course.last) < 4 or now.loss < 0.95 * course.last[0].loss:
        return None
    scale = abs(course.start)
    zigzag = now.turns >= 0.85 and now.noise > 0.15 * scale
    noise = max(stretch.noise for stretch in course.last)
    pieces = [piece for stretch in course.last for piece in stretch.pieces]
    swings = _swings(pieces, max(0.2 * scale, 4 * noise))
    if not (zigzag or swings >= 4):
        return None
    low, high = min(pieces), max(pieces)
    return Evidence(
        f"the loss oscillates between {low:.4g} and {high:.4g} and does not fall. Lower the "
        "learning rate or the momentum, or take larger steps",
        {"low": low, "high": high, "swings": float(swings), "turns": now.turns},
    )


def plateau(course: LossHistory, _: Mapping[str, float]) -> Evidence | None:
    """The loss has not moved since the first step.

    After the worth of 300 steps at the full learning rate the loss has fallen by less than a
    hundredth of its start, and so much is certain: fall + 2 e < |L| / 100, where the error e of
    both medians is s sqrt(1.57 / 10 + 1.57 / 50) for noise s. A loss that is mostly noise cannot be
    judged, and is not; one that has risen by a fiftieth is no plateau. TheDeepChecker (Ben Braiek
    and Khomh 2022) looks for a loss that stays.
    """
    if course.worth < 300:
        return None
    now = course.now
    error = max(now.noise, course.first.noise) * math.sqrt(1.57 / 10 + 1.57 / 50)
    least = min(stretch.loss for stretch in course.last)
    fallen = course.start - min(least, course.best)
    little = 0.01 * abs(course.start)
    if fallen + 2 * error >= little or now.loss > course.start + 2 * little:
        return None
    return Evidence(
        f"nothing is learned: the loss is {now.loss:.5g} after {course.steps:,} steps and was "
        f"{course.start:.5g} at the start. Look at the learning rate, the labels, and whether a "
        "gradient reaches every layer",
        {"loss": now.loss, "start": course.start},
    )


def vanishing(course: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """The gradient of a layer group is under a thousandth of that of the last one, and under
    0.0001: beta 1 and beta 2 of AUTOTRAINER (Zhang et al. 2021, ICSE). Units that are dead pass no
    gradient on, and a loss that has risen has another cause: then that is told."""
    groups = _layers(numbers)
    if len(groups) < 2 or _dead_layer(numbers) or not _stands_still(course):
        return None
    last = numbers[f"gradient_norm/{groups[-1]}"]
    norms = {group: numbers[f"gradient_norm/{group}"] for group in groups[:-1]}
    small = {group: norm for group, norm in norms.items() if norm < min(1e-4, last / 1000)}
    if not small:
        return None
    worst = min(small, key=lambda group: small[group])
    return Evidence(
        f"the gradient vanishes on its way back: {small[worst]:.2g} in {worst} ({len(small)} of "
        f"{len(groups)} layer groups), {last:.2g} in {groups[-1]}. Take ReLU or GELU in the place "
        "of sigmoid and tanh, norms, or connections that skip layers",
        {"gradient_norm": small[worst], "last": last, "groups": float(len(small))},
    )


def dead_units(course: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """At least 70% of the units of some layer get no gradient from any row (AUTOTRAINER's gamma),
    while the loss is above a fifth of its start: near 0 few rows have any gradient to give. Of
    several layers the last one is told, since no gradient gets past it to those before. Where the
    loss had leapt before, the cause is the learning rate, and told as that."""
    layer = _dead_layer(numbers)
    if not layer or course.now.loss < 0.2 * course.start or _has_leapt(course):
        return None
    share = numbers[f"dead_share/{layer}"]
    return Evidence(
        f"{share:.0%} of the units of a layer in {layer} are dead: no row gives them a gradient. "
        "Lower the learning rate, or take GELU or a leaky ReLU",
        {"dead_share": share},
    )


def _dead_layer(numbers: Mapping[str, float]) -> str:
    """The last layer group with at least 70% dead units; empty if there is none."""
    dead = [group for group in _layers(numbers) if numbers[f"dead_share/{group}"] >= 0.7]
    return dead[-1] if dead else ""


def _has_leapt(course: LossHistory) -> bool:
    """Whether the loss exploded at the start, or the run was rolled back."""
    return bool(course.leap.step or course.rollbacks)


def learning_rate_low(course: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """The middle one of the layer groups moves by less than 0.00001 of its weights in a step, at a
    learning rate near its peak, and the loss has hardly moved: 0.001 is usual (Karpathy 2022,
    "Neural networks: zero to hero", lecture 4)."""
    ratio = _middle_ratio(numbers)
    if not ratio < 1e-5 or course.worth < 100 or not _is_at_peak(course) or _has_learned(course):
        return None
    return Evidence(
        f"the learning rate looks too low: a step changes the weights by {ratio:.1g} of their "
        "size, about 0.001 is usual",
        {"update_ratio": ratio},
    )


def learning_rate_high(course: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """The middle one of the layer groups moves by more than 0.03 of its weights in a step, and the
    loss is no lower than at the start. Or 70% of the units of a layer have died after the loss had
    leapt."""
    layer = _dead_layer(numbers)
    if layer and _has_leapt(course) and course.now.loss >= 0.2 * course.level:
        share = numbers[f"dead_share/{layer}"]
        return Evidence(
            f"the learning rate is too high: the loss leapt{_at_step(course)}, and {share:.0%} of "
            f"the units of a layer in {layer} have been dead since",
            {"dead_share": share},
        )
    ratio = _middle_ratio(numbers)
    if not ratio > 0.03 or course.steps < 3 * STRETCH or _has_learned(course):
        return None
    return Evidence(
        f"the learning rate looks too high: a step changes the weights by {ratio:.2g} of their "
        "size, about 0.001 is usual",
        {"update_ratio": ratio},
    )


def lost_updates(course: LossHistory, numbers: Mapping[str, float]) -> Evidence | None:
    """A layer group that is trained moves by less than 1e-7 of its weights at a learning rate near
    its peak, while the middle one moves: fp32 holds 6e-8, so most of the update is rounded away."""
    moves = _middle_ratio(numbers) >= 1e-5
    if not (moves and _is_at_peak(course) and course.worth >= 100):
        return None
    ratios = {group: numbers[f"update_ratio/{group}"] for group in _layers(numbers)}
    still = [group for group, ratio in ratios.items() if ratio < 1e-7]
    if not still:
        return None
    return Evidence(
        f"{still[0]} ({len(still)} of {len(ratios)} layer groups) stands still: a step changes its "
        f"weights by {ratios[still[0]]:.1g} of their size. Freeze it, or find out why",
        {"update_ratio": ratios[still[0]], "groups": float(len(still))},
    )


def _stands_still(course: LossHistory) -> bool:
    """Whether the loss is neither below half of its start nor above it by more than a fifth and its
    noise."""
    now, start = course.now, course.start
    above = start + 0.2 * abs(start) + 2 * max(now.noise, course.first.noise)
    return start / 2 <= now.loss <= above


def _at_step(course: LossHistory) -> str:
    return f" at step {course.leap.step}" if course.leap.step else " and the run was rolled back"


def _layers(numbers: Mapping[str, float]) -> list[str]:
    """The groups with a linear layer or a convolution that are trained, from the input on."""
    named = [name.partition("/") for name in numbers]
    groups = [group for what, _, group in named if what == "dead_share"]
    return [group for group in groups if f"gradient_norm/{group}" in numbers]


def _middle_ratio(numbers: Mapping[str, float]) -> float:
    ratios = [numbers[f"update_ratio/{group}"] for group in _layers(numbers)]
    return median(ratios) if ratios else math.nan


def _is_at_peak(course: LossHistory) -> bool:
    return course.now.rate >= 0.5 * course.peak_rate


def _has_learned(course: LossHistory) -> bool:
    """Whether the loss is below its start by more than a twentieth, or than its noise."""
    fallen = course.start - course.now.loss
    return fallen > min(0.05 * abs(course.start), max(course.now.noise, course.first.noise))


def _swings(values: Sequence[float], size: float) -> int:
    """How often the values turn round by at least `size`."""
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
