"""Learning-rate schedules: pure functions of the applied step, so that resuming needs no state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import assert_never

from trainwright.contract.training import Constant, CosineWithWarmup, Scheduler

Schedule = Callable[[int], float]
"""Applied optimizer steps so far -> the factor on the peak learning rate for the next one."""


def build_schedule(section: Scheduler, total_steps: int) -> Schedule:
    """The schedule of a contract over a run of `total_steps` optimizer steps."""
    match section:
        case Constant():
            return constant
        case CosineWithWarmup():
            warmup = math.ceil(section.warmup_ratio * total_steps)
            return cosine_with_warmup(total_steps, warmup, section.min_lr_ratio)
        case _:
            assert_never(section)


def constant(_step: int) -> float:
    """1 at every step."""
    return 1.0


def cosine_with_warmup(total_steps: int, warmup_steps: int, floor: float) -> Schedule:
    """Linear up to 1, then half a cosine down to `floor` (Loshchilov and Hutter 2017,
    arXiv:1608.03983, equation 5 with one period).

    Step t (from 0) of W warmup steps has the factor (t + 1) / W, so that no step is spent at 0; of
    T steps in all, a later one has floor + (1 - floor) * (1 + cos(pi * (t - W) / (T - 1 - W))) / 2,
    which is `floor` at the last step and stays there beyond it.
    """
    decay_steps = max(1, total_steps - 1 - warmup_steps)

    def factor(step: int) -> float:
        if step < warmup_steps:
            return (step + 1) / warmup_steps
        share = min(1.0, (step - warmup_steps) / decay_steps)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * share))

    return factor
