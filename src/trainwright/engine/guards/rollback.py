"""Rollback of a training: a bad data region is dropped, the learning rate reduced, generators
rewound."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any, ClassVar, Literal, NamedTuple, final

import numpy as np
import torch

from trainwright.checkpoint.state import Snapshot
from trainwright.core.progress import Progress
from trainwright.engine.guards.spike_detection import SpikeWatch
from trainwright.optim.optimizer_protocol import Optimizer

_UNKNOWN_STEPS = 32
_CALM_IN_A_ROW = 32
_MOST_DROPPED = 64


@final
class BadRegion:
    """Loss limit above which updates are dropped, from a rollback until the bad region ends.

    The rollback also restores the spike watch, so the usual loss is that of the restored weights.
    If it has too few steps to define one, the next 32 steps are dropped unseen. The region ends
    after 32 calm steps in a row. After 64 dropped steps the new level is accepted as usual: the
    data or the weights have changed, and this is no region of bad rows.
    """

    def __init__(self, watch: SpikeWatch) -> None:
        self._watch = watch
        self.is_open = False
        self._limit = math.nan
        self._dropped = 0
        self._calm = 0

    def begin(self) -> None:
        """Start a region; the limit is computed once the rollback is done."""
        self.is_open = True
        self._limit = math.nan
        self._dropped = self._calm = 0

    def limit(self) -> float:
        """Loss above which an update is dropped; infinite outside a region. Constant between calls
        of `settle`."""
        if not self.is_open:
            return math.inf
        if math.isnan(self._limit):
            self._limit = self._watch.usual_limit()
        return self._limit

    def take(self, *, dropped: bool) -> None:
        """Count a step."""
        self._dropped += dropped
        self._calm = 0 if dropped else self._calm + 1

    def settle(self) -> None:
        """Close the region if it is over."""
        unknown = self._limit == -math.inf
        if self._dropped >= _MOST_DROPPED and not unknown:
            self._watch.rearm()
            self.is_open = False
        elif self._calm >= _CALM_IN_A_ROW or (unknown and self._dropped >= _UNKNOWN_STEPS):
            self.is_open = False

    def snapshot(self) -> Snapshot:
        """State of the region."""
        return Snapshot(
            values={
                "is_open": self.is_open,
                "limit": self.limit(),
                "dropped": self._dropped,
                "calm": self._calm,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self.is_open = bool(values["is_open"])
        self._limit = float(values["limit"])
        self._dropped, self._calm = int(values["dropped"]), int(values["calm"])


class _Generator(NamedTuple):
    """Reads, writes and compares the state of a generator."""

    read: Callable[[], Any]
    write: Callable[[Any], object]
    same: Callable[[Any, Any], bool]


@final
class StepGenerators:
    """Generators used by a step, restorable to their state before it.

    Which ones the step uses is detected in the first step; the others cost nothing afterwards.
    Covers Python, NumPy and torch: the CPU and each CUDA device.
    """

    def __init__(self) -> None:
        self._drawn = _generators()
        self._before: list[Any] = []
        self.settled = False

    def keep(self) -> None:
        """Save their states before a step."""
        self._before = [generator.read() for generator in self._drawn]

    def put_back(self) -> None:
        """Restore their states from before the step."""
        for generator, before in zip(self._drawn, self._before, strict=True):
            generator.write(before)

    def settle(self) -> None:
        """After the first step, keep only the generators it used."""
        pairs = zip(self._drawn, self._before, strict=True)
        self._drawn = [one for one, before in pairs if not one.same(one.read(), before)]
        self.settled = True


def _generators() -> list[_Generator]:
    generators = [
        _Generator(torch.get_rng_state, torch.set_rng_state, torch.equal),
        _Generator(random.getstate, random.setstate, lambda one, other: one == other),
        _Generator(np.random.get_state, np.random.set_state, _same_numpy),
    ]
    if torch.cuda.is_available():
        generators.append(
            _Generator(
                torch.cuda.get_rng_state_all,
                torch.cuda.set_rng_state_all,
                lambda one, other: all(map(torch.equal, one, other)),
            )
        )
    return generators


def _same_numpy(one: Any, other: Any) -> bool:
    return one[0] == other[0] and np.array_equal(one[1], other[1]) and one[2:] == other[2:]


@final
class RollbackBackoff:
    """Schedule that lowers the learning rate for a number of attempted steps after a rollback.

    A function of the progress and of one checkpointed number: the attempted step at which it ends.
    It multiplies the current rate, so it must follow the schedule that sets the learning rate.
    """

    on_rollback: ClassVar[Literal["keep"]] = "keep"

    def __init__(self, optimizer: Optimizer, factor: float, steps: int) -> None:
        self._groups = optimizer.param_groups
        self._factor = factor
        self._steps = steps
        self._until = 0
        self._attempted = 0

    def begin(self) -> None:
        """Start the reduction at the next step."""
        self._until = self._attempted + 1 + self._steps

    def __call__(self, progress: Progress) -> None:
        """Lower the learning rate if a rollback was recent."""
        self._attempted = progress.attempted
        if progress.attempted < self._until:
            for group in self._groups:
                group["lr"] *= self._factor

    def snapshot(self) -> Snapshot:
        """Attempted step at which it ends."""
        return Snapshot(values={"until": self._until})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the end."""
        self._until = int(snapshot.values["until"])
