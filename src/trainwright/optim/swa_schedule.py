"""The steps at which weights are taken into a mean. No torch: a plan asks too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from trainwright.contract.averaging import Swa


@final
@dataclass(frozen=True, slots=True)
class SWASchedule:
    """From `start` applied steps on, the weights after each of `steps` are taken; steps rise, and
    the first is behind the start."""

    start: int
    steps: tuple[int, ...]


def taking_of(section: Swa, epoch_ends: Sequence[int], steps: int) -> SWASchedule:
    """The steps of a section in a run with these ends of epochs, of `steps` in all."""
    start = math.ceil(section.start_ratio * steps - 1e-9)
    if section.start_epoch:
        start = epoch_ends[min(section.start_epoch, len(epoch_ends)) - 1]
    if section.every_n_steps == "epoch":
        return SWASchedule(start, tuple(end for end in epoch_ends if start < end <= steps))
    every = section.every_n_steps
    return SWASchedule(start, tuple(range(start + every, steps + 1, every)))
