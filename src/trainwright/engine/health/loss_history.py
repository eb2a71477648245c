"""Loss history, summarised in segments of 50 steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.files import Json
from trainwright.engine.signals.telemetry import StepNumbers

SEGMENT = 50
"""Steps per segment."""

_FIRST = 10
_PIECE = 5
_REMEMBERED = 4
_LEAST_LEAP = 4.0
_SPREADS = 10
_LEAP_OF_FIRST = 10.0
_MANY_TARGETS = 16
_TO_DEVIATION = 1.0483
"""Standard deviation of a normal distribution over the median |x - y| of two draws."""


class LossWindow(NamedTuple):
    """Summary of one segment.

    `loss` is the median loss and `norm` the median gradient norm, `rate` the mean learning rate.
    `noise` is the standard deviation of a loss about its neighbours, free of trend (1.0483 times
    the median |difference| of neighbours). `turns` is the share of steps at which the loss turns
    from falling to rising or back: 2/3 for noise, 1 where each step undoes the one before. `pieces`
    are the medians of five losses each, `least` is the lowest loss.
    """

    loss: float
    norm: float
    rate: float
    noise: float
    turns: float
    pieces: tuple[float, ...]
    least: float


class LossJump(NamedTuple):
    """Loss explosion in the first steps: the step, its loss and the loss before."""

    step: int
    loss: float
    before: float


NO_LEAP = LossJump(0, math.nan, math.nan)
NO_SEGMENT = LossWindow(math.nan, math.nan, 0.0, math.nan, 0.0, (), math.nan)


@final
class LossHistory:
    """Loss history that the health rules judge.

    `origin` is the very first loss, computed before any update, `start` the median of the first
    ten, `first` the first segment, `last` the newest ones, at most four, and `best` the lowest
    median loss of a segment before the newest. `steps` counts the steps in segments, `worth` weighs
    them by their learning rate relative to the largest so far, so that a warmup does not count as
    training. `leap` is the loss explosion within the first 50 steps, `rollbacks` the number of
    rollbacks. Steps with non-finite numbers do not count.
    """

    def __init__(self) -> None:
        self._waiting: list[StepNumbers] = []
        self.origin = math.nan
        self.start = math.nan
        self.best = math.inf
        self.steps = 0
        self.worth = 0.0
        self.peak_rate = 0.0
        self.first = NO_SEGMENT
        self.last: list[LossWindow] = []
        self.leap = NO_LEAP
        self.rollbacks = 0

    @property
    def level(self) -> float:
        """Loss at the start; before the explosion, if there was one."""
        return self.leap.before if self.leap.step else self.start

    @property
    def now(self) -> LossWindow:
        """The newest segment."""
        return self.last[-1]

    def take(self, step: StepNumbers) -> bool:
        """Add a step; whether it completes a segment."""
        if not (math.isfinite(step.loss) and math.isfinite(step.gradient_norm)):
            return False
        self._waiting.append(step)
        if len(self._waiting) < SEGMENT:
            return False
        segment = _summarize(self._waiting)
        if not self.steps:
            self.origin = self._waiting[0].loss
            self.start = median(one.loss for one in self._waiting[:_FIRST])
            self.first = segment
            self._find_leap()
        self._weigh(segment)
        self._waiting.clear()
        if self.last:
            self.best = min(self.best, self.now.loss)
        self.last = [*self.last, segment][-_REMEMBERED:]
        self.steps += SEGMENT
        return True

    def forget(self) -> None:
        """Drop the newest segments after a rollback to before them."""
        self.rollbacks += 1
        if not self.steps:
            self._find_leap()
        self._waiting.clear()
        self.last.clear()

    def snapshot(self) -> Snapshot:
        """Full history."""
        return Snapshot(
            values={
                "waiting": [[*step[:4], step.targets] for step in self._waiting],
                "origin": self.origin,
                "start": self.start,
                "best": self.best,
                "steps": self.steps,
                "worth": self.worth,
                "peak_rate": self.peak_rate,
                "leap": list(self.leap),
                "rollbacks": self.rollbacks,
                "first": list(self.first),
                "last": [list(segment) for segment in self.last],
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the history."""
        values = snapshot.values
        self._waiting = [
            StepNumbers(int(step), float(loss), float(norm), float(rate), targets=int(targets))
            for step, loss, norm, rate, targets in values["waiting"]
        ]
        self.origin = float(values["origin"])
        self.start, self.best = float(values["start"]), float(values["best"])
        self.steps, self.worth = int(values["steps"]), float(values["worth"])
        self.peak_rate = float(values["peak_rate"])
        step, *losses = values["leap"]
        self.leap = LossJump(int(step), *map(float, losses))
        self.rollbacks = int(values["rollbacks"])
        self.first = _read_segment(values["first"])
        self.last = [_read_segment(segment) for segment in values["last"]]

    def _find_leap(self) -> None:
        """Find the first explosion among the waiting steps, the first ones of the run.

        A median of five losses counts as an explosion if it exceeds four times the loss before the
        first update and four times the first five, and exceeds these by ten times their spread. If
        the first five have exploded themselves, only the very first loss is left for comparison:
        then the factor is ten. Steps of fewer than 16 targets are not judged: their loss may be
        small by chance.
        """
        losses = [step.loss for step in self._waiting]
        if self.leap.step or len(losses) < 2 * _PIECE or not losses[0] > 0:
            return
        if self._waiting[0].targets < _MANY_TARGETS:
            return
        first = losses[:_PIECE]
        calm = max(losses[0], median(first))
        limit = max(_LEAST_LEAP * calm, calm + _SPREADS * (max(first) - min(first)))
        limit = min(limit, _LEAP_OF_FIRST * losses[0])
        for at in range(0, len(losses) - _PIECE + 1, _PIECE):
            piece = losses[at : at + _PIECE]
            if median(piece) > limit:
                since = max(0, at - _PIECE)
                above = next(i for i in range(since, at + _PIECE) if losses[i] > limit)
                before = calm if above >= _PIECE else losses[0]
                self.leap = LossJump(self._waiting[above].step, max(piece), before)
                return

    def _weigh(self, segment: LossWindow) -> None:
        """Weigh steps by their learning rate; when the peak rises, earlier steps count for less."""
        if segment.rate > self.peak_rate:
            self.worth *= self.peak_rate / segment.rate
            self.peak_rate = segment.rate
        if self.peak_rate:
            self.worth += SEGMENT * segment.rate / self.peak_rate


def _summarize(steps: Sequence[StepNumbers]) -> LossWindow:
    losses = [step.loss for step in steps]
    differences = [after - before for before, after in pairwise(losses)]
    turns = sum(a * b < 0 for a, b in pairwise(differences))
    return LossWindow(
        loss=median(losses),
        norm=median(step.gradient_norm for step in steps),
        rate=sum(step.learning_rate for step in steps) / len(steps),
        noise=_TO_DEVIATION * median(map(abs, differences)),
        turns=turns / (len(differences) - 1),
        pieces=tuple(median(losses[i : i + _PIECE]) for i in range(0, len(losses), _PIECE)),
        least=min(losses),
    )


def _read_segment(values: Json) -> LossWindow:
    loss, norm, rate, noise, turns, pieces, least = values
    return LossWindow(loss, norm, rate, noise, turns, tuple(pieces), least)
