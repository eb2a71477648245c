"""The course of a loss: what is remembered of it, a stretch of steps at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple, final

from trainwright.checkpoint.state import Snapshot
from trainwright.core.files import Json
from trainwright.engine.telemetry import StepNumbers

STRETCH = 50
"""Steps of a stretch."""

_FIRST = 10
_PIECE = 5
_REMEMBERED = 4
_LEAST_LEAP = 4.0
_SPREADS = 10
_LEAP_OF_FIRST = 10.0
_MANY_TARGETS = 16
_TO_DEVIATION = 1.0483
"""A normal deviation in medians of |x - y| of two draws."""


class LossWindow(NamedTuple):
    """Fifty steps.

    `loss` is the median loss and `norm` the median gradient norm, `rate` the mean learning rate.
    `noise` is the deviation of a loss from its neighbours, a trend left out (1.0483 times the
    median |difference| of neighbours). `turns` is how often of all times the loss turned from
    falling to rising or back, 2/3 where it is noise, 1 where each step undoes the one before.
    `pieces` are the medians of five losses each, `least` the least loss.
    """

    loss: float
    norm: float
    rate: float
    noise: float
    turns: float
    pieces: tuple[float, ...]
    least: float


class LossJump(NamedTuple):
    """A loss that explodes in the first steps: the step, the loss there and the one before."""

    step: int
    loss: float
    before: float


NO_LEAP = LossJump(0, math.nan, math.nan)
NO_STRETCH = LossWindow(math.nan, math.nan, 0.0, math.nan, 0.0, (), math.nan)


@final
class LossHistory:
    """What signs of trouble are judged by.

    `origin` is the very first loss, computed before any update, `start` the median of the first
    ten, `first` the first stretch, `last` the newest ones, at most four, and `best` the least
    median loss of a stretch before the newest. `steps` counts the steps in stretches, `worth`
    weighs them by their learning rate over the largest so far, so that a warmup does not count as
    training. `leap` is where the loss exploded within the first 50 steps, `rollbacks` how often the
    run went back. Steps with numbers that are not finite do not count.
    """

    def __init__(self) -> None:
        self._waiting: list[StepNumbers] = []
        self.origin = math.nan
        self.start = math.nan
        self.best = math.inf
        self.steps = 0
        self.worth = 0.0
        self.peak_rate = 0.0
        self.first = NO_STRETCH
        self.last: list[LossWindow] = []
        self.leap = NO_LEAP
        self.rollbacks = 0

    @property
    def level(self) -> float:
        """The loss at the start, from before it exploded if it did."""
        return self.leap.before if self.leap.step else self.start

    @property
    def now(self) -> LossWindow:
        """The newest stretch."""
        return self.last[-1]

    def take(self, step: StepNumbers) -> bool:
        """Take a step in; whether it ends a stretch."""
        if not (math.isfinite(step.loss) and math.isfinite(step.gradient_norm)):
            return False
        self._waiting.append(step)
        if len(self._waiting) < STRETCH:
            return False
        stretch = _stretch(self._waiting)
        if not self.steps:
            self.origin = self._waiting[0].loss
            self.start = median(one.loss for one in self._waiting[:_FIRST])
            self.first = stretch
            self._find_leap()
        self._weigh(stretch)
        self._waiting.clear()
        if self.last:
            self.best = min(self.best, self.now.loss)
        self.last = [*self.last, stretch][-_REMEMBERED:]
        self.steps += STRETCH
        return True

    def forget(self) -> None:
        """Drop the newest stretches: the run went back to before them."""
        self.rollbacks += 1
        if not self.steps:
            self._find_leap()
        self._waiting.clear()
        self.last.clear()

    def snapshot(self) -> Snapshot:
        """Everything."""
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
                "last": [list(stretch) for stretch in self.last],
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from there."""
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
        self.first = _read_stretch(values["first"])
        self.last = [_read_stretch(stretch) for stretch in values["last"]]

    def _find_leap(self) -> None:
        """The first explosion among the waiting steps, the first ones of the run.

        A median of five losses counts that is over four times the one before the first update and
        the first five, and over them by ten times what these five spread. Where the first five have
        exploded themselves there is only the very first loss: then ten times that. Steps of fewer
        than 16 targets are not judged: their loss may be small by chance.
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

    def _weigh(self, stretch: LossWindow) -> None:
        """Steps count by their rate; when the rate rises, those before it count for less."""
        if stretch.rate > self.peak_rate:
            self.worth *= self.peak_rate / stretch.rate
            self.peak_rate = stretch.rate
        if self.peak_rate:
            self.worth += STRETCH * stretch.rate / self.peak_rate


def _stretch(steps: Sequence[StepNumbers]) -> LossWindow:
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


def _read_stretch(values: Json) -> LossWindow:
    loss, norm, rate, noise, turns, pieces, least = values
    return LossWindow(loss, norm, rate, noise, turns, tuple(pieces), least)
