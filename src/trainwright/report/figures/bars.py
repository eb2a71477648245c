"""Interval bars: positions of the marks in percent of the bar's width."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.report.format import show_range, show_value

_MARGIN = 0.08


@final
@dataclass(frozen=True, slots=True)
class Scale:
    """Value range of a bar."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float]) -> Scale:
        """Range of the finite values with a margin on both sides."""
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            return cls(0.0, 1.0)
        low, high = min(finite), max(finite)
        margin = (high - low) * _MARGIN or abs(low) * _MARGIN or 1.0
        return cls(low - margin, high + margin)

    def percent(self, value: float) -> float:
        """Position of `value`, 0 to 100."""
        share = (value - self.low) / (self.high - self.low)
        return round(100 * min(1.0, max(0.0, share)), 2) if math.isfinite(share) else 0.0


@final
@dataclass(frozen=True, slots=True)
class BarSpan:
    """A span of a bar in percent."""

    left: float
    width: float


@final
@dataclass(frozen=True, slots=True)
class Bar:
    """A drawn interval: its range, value and target, each optional, with a text alternative."""

    range: tuple[BarSpan, ...]
    value: tuple[float, ...]
    target: tuple[float, ...]
    words: str


def draw_bar(interval: Interval, target: float, scale: Scale) -> Bar:
    """Draw `interval` and `target` (nan for none) on `scale`."""
    left, right = scale.percent(interval.low), scale.percent(interval.high)
    words = f"{show_value(interval.value)}, interval {show_range(interval)}"
    aimed = math.isfinite(target)
    return Bar(
        range=(BarSpan(left, round(right - left, 2)),) if interval.given else (),
        value=(scale.percent(interval.value),) if math.isfinite(interval.value) else (),
        target=(scale.percent(target),) if aimed else (),
        words=f"{words}, target {show_value(target)}" if aimed else words,
    )


def scale_of(intervals: Sequence[Interval], others: Sequence[float] = ()) -> Scale:
    """Common scale of several intervals."""
    ends = [end for one in intervals for end in (one.low, one.value, one.high)]
    return Scale.over([*ends, *others])
