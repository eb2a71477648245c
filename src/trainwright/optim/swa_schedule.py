"""Steps at which weights are averaged (SWA). No torch: also used by the planner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from trainwright.contract.sections.training.scheduler import Swa


@final
@dataclass(frozen=True, slots=True)
class SWASchedule:
    """Averaging schedule: from `start` applied steps on, the weights after each of `steps` are
    averaged; steps increase, and the first is after the start."""

    start: int
    steps: tuple[int, ...]


def taking_of(section: Swa, epoch_ends: Sequence[int], steps: int) -> SWASchedule:
    """Schedule of a section for a run of `steps` steps with these epoch ends."""
    start = math.ceil(section.start_ratio * steps - 1e-9)
    if section.start_epoch:
        start = epoch_ends[min(section.start_epoch, len(epoch_ends)) - 1]
    if section.every_n_steps == "epoch":
        return SWASchedule(start, tuple(end for end in epoch_ends if start < end <= steps))
    every = section.every_n_steps
    return SWASchedule(start, tuple(range(start + every, steps + 1, every)))
