"""Learning-rate schedules: pure functions of the applied step, so that resuming needs no state.

Step t runs from 0 to T - 1; the first W warm up with the factor (t + 1) / W. After that the shapes
are functions of s = (t - W) / (T - 1 - W), which is 1 at the last step and stays there beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, assert_never

from trainwright.contract.sections.training import scheduler as contract
from trainwright.optim.plateau import Plateau

Schedule = Callable[[int], float]
"""Applied optimizer steps so far -> factor on the peak learning rate of the next one."""

Shape = Callable[[float], float]
"""Decay shape: progress of the decay, 0 to 1 -> remaining share, 1 to 0."""


def build_schedule(section: contract.AnyScheduler, total_steps: int) -> Schedule | Plateau:
    """Schedule of a contract over a run of `total_steps` optimizer steps. A `Plateau` must be
    updated with the validation losses."""
    total = total_steps
    match section:
        case contract.Constant():
            return warmed_up(_warmup(section, total), constant)
        case contract.LinearDecay(min_lr_ratio=floor):
            return falling(total, _warmup(section, total), straight, floor)
        case contract.PolynomialDecay(min_lr_ratio=floor):
            return falling(total, _warmup(section, total), power_of(section.power), floor)
        case contract.CosineDecay(cycles=cycles, cycle_growth=growth, min_lr_ratio=floor):
            return cosine(total, _warmup(section, total), floor, cycles, growth)
        case contract.CosineWithWarmup(min_lr_ratio=floor):
            return cosine_with_warmup(total, _warmup(section, total), floor)
        case contract.StepDecay():
            steps = [_part(share, total) for share in section.milestones]
            falls = stepwise(steps, section.factor, section.min_lr_ratio)
            return warmed_up(_warmup(section, total), falls)
        case contract.InverseSqrt(min_lr_ratio=floor):
            return inverse_sqrt(max(1, _warmup(section, total)), floor)
        case contract.OneCycle(start_ratio=start, min_lr_ratio=floor):
            return one_cycle(total, _warmup(section, total), start, floor)
        case contract.WarmupStableDecay(shape=shape, min_lr_ratio=floor):
            decay = section.decay_steps or _part(section.decay_ratio, total)
            return warmup_stable_decay(total, _warmup(section, total), decay, shape, floor)
        case contract.ReduceOnPlateau():
            return Plateau(
                warmed_up(_warmup(section, total), constant),
                factor=section.factor,
                patience=section.patience,
                cooldown=section.cooldown,
                min_delta=section.min_delta,
                floor=section.min_lr_ratio,
            )
        case _:
            assert_never(section)


def constant(_step: int) -> float:
    """1 at every step."""
    return 1.0


def warmed_up(warmup_steps: int, after: Schedule) -> Schedule:
    """Linear warmup to 1, then another schedule, which also counts its steps from the start."""

    def factor(step: int) -> float:
        return (step + 1) / warmup_steps if step < warmup_steps else after(step)

    return factor


def straight(share: float) -> float:
    """1 - s."""
    return 1 - share


def half_cosine(share: float) -> float:
    """(1 + cos(pi s)) / 2."""
    return 0.5 * (1 + math.cos(math.pi * share))


def one_minus_sqrt(share: float) -> float:
    """1 - sqrt(s) (Haegele et al. 2024, arXiv:2405.18392, equation 2)."""
    return 1 - math.sqrt(share)


def power_of(power: float) -> Shape:
    """(1 - s) ^ power."""
    return lambda share: (1 - share) ** power


def falling(total_steps: int, warmup_steps: int, shape: Shape, floor: float) -> Schedule:
    """Warmup, then decay along one shape to `floor` at the last step."""
    span = max(1, total_steps - 1 - warmup_steps)

    def after(step: int) -> float:
        return floor + (1 - floor) * shape(min(1.0, (step - warmup_steps) / span))

    return warmed_up(warmup_steps, after)


def cosine_with_warmup(total_steps: int, warmup_steps: int, floor: float) -> Schedule:
    """Linear warmup to 1, then a half cosine to `floor` (Loshchilov and Hutter 2017,
    arXiv:1608.03983, equation 5 with one period).

    Step t (from 0) of W warmup steps has the factor (t + 1) / W, so that no step has factor 0; of T
    steps in total, a later one has floor + (1 - floor) * (1 + cos(pi * (t - W) / (T - 1 - W))) / 2,
    which is `floor` at the last step and stays there beyond it.
    """
    return falling(total_steps, warmup_steps, half_cosine, floor)


def cosine(
    total_steps: int, warmup_steps: int, floor: float, cycles: int = 1, growth: float = 1.0
) -> Schedule:
    """Half cosines with warm restarts (Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5).

    The steps after the warmup are divided into cycles, each `growth` times as long as the previous
    one. Each starts at 1 and reaches `floor` at its last step.
    """
    wholes = [sum(growth**i for i in range(count)) for count in range(cycles + 1)]
    after_warmup = max(0, total_steps - warmup_steps)
    starts = [warmup_steps + round(after_warmup * whole / wholes[-1]) for whole in wholes]

    def after(step: int) -> float:
        cycle = max(i for i in range(cycles) if i == 0 or starts[i] <= step)
        span = max(1, starts[cycle + 1] - starts[cycle] - 1)
        return floor + (1 - floor) * half_cosine(min(1.0, (step - starts[cycle]) / span))

    return warmed_up(warmup_steps, after)


def stepwise(milestones: Sequence[int], factor: float, floor: float = 0.0) -> Schedule:
    """`factor` to the power of the number of milestones passed, never below `floor`."""
    return lambda step: max(floor, factor ** sum(step >= passed for passed in milestones))


def inverse_sqrt(warmup_steps: int, floor: float = 0.0) -> Schedule:
    """sqrt(W / (t + 1)) after a warmup (Vaswani et al. 2017, arXiv:1706.03762, equation 3)."""
    return warmed_up(warmup_steps, lambda step: max(floor, math.sqrt(warmup_steps / (step + 1))))


def one_cycle(total_steps: int, warmup_steps: int, start: float, floor: float) -> Schedule:
    """Half a cosine from `start` to 1 at step W - 1, then another to `floor` at the last step
    (Smith and Topin 2018, arXiv:1708.07120; torch's OneCycleLR with two phases)."""
    top = max(0, warmup_steps - 1)
    span = max(1, total_steps - 1 - top)

    def factor(step: int) -> float:
        if step < top:
            return 1 + (start - 1) * half_cosine(step / top)
        return floor + (1 - floor) * half_cosine(min(1.0, (step - top) / span))

    return factor


def warmup_stable_decay(
    total_steps: int,
    warmup_steps: int,
    decay_steps: int,
    shape: Literal["one_minus_sqrt", "linear", "cosine"],
    floor: float = 0.0,
) -> Schedule:
    """1 between the warmup and the last `decay_steps`, over which it falls to `floor` (Hu et al.
    2024, arXiv:2404.06395, section 4)."""
    shapes = {"one_minus_sqrt": one_minus_sqrt, "linear": straight, "cosine": half_cosine}
    left = shapes[shape]
    begin = total_steps - decay_steps
    span = max(1, decay_steps - 1)

    def after(step: int) -> float:
        share = max(0, step - begin) / span
        return floor + (1 - floor) * left(min(1.0, share))

    return warmed_up(warmup_steps, after)


def _warmup(section: contract.Warmed, total_steps: int) -> int:
    return section.warmup_steps or _part(section.warmup_ratio, total_steps)


def _part(share: float, total_steps: int) -> int:
    """Share of the total in whole steps, rounded up, robust to floating-point error: 0.55 of 100 is
    55."""
    return math.ceil(share * total_steps - 1e-9)
