"""Histograms of the data: training rows filled, held-out rows as a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from trainwright.data.statistics.histograms import Distribution
from trainwright.report.format import show_share, show_value

WIDTH, HEIGHT = 240.0, 40.0
_WHOLE = 1e9


@final
@dataclass(frozen=True, slots=True)
class HistogramShape:
    """Geometry of a histogram: training bars as (left, top, width, height), the held-out outline as
    points (x, y), and the axis limits."""

    bars: tuple[tuple[float, float, float, float], ...]
    line: tuple[tuple[float, float], ...]
    low: str
    high: str


@final
@dataclass(frozen=True, slots=True)
class ValueShare:
    """A value with its share of the rows of each part, in percent and as text."""

    label: str
    train: float
    held_out: float
    train_share: str
    held_out_share: str


@final
@dataclass(frozen=True, slots=True)
class DistributionView:
    """One column: a histogram or value shares, with a text alternative."""

    name: str
    words: str
    shape: tuple[HistogramShape, ...] = ()
    shares: tuple[ValueShare, ...] = ()


def view_distributions(found: Sequence[Distribution]) -> tuple[DistributionView, ...]:
    """Every column with values, in data order."""
    return tuple(_view(one) for one in found if sum(one.train))


def _view(one: Distribution) -> DistributionView:
    train, held_out = _shares(one.train), _shares(one.held_out)
    if not one.labels:
        low, high = _end(one.low), _end(one.high)
        words = f"histogram from {low} to {high}, training and held-out rows"
        return DistributionView(one.name, words, (_shape(train, held_out, low, high),))
    rows = tuple(
        ValueShare(label, round(100 * a, 2), round(100 * b, 2), show_share(a), show_share(b))
        for label, a, b in zip(one.labels, train, held_out, strict=True)
    )
    return DistributionView(one.name, "shares of the values", shares=rows)


def _end(value: float) -> str:
    """Axis limit; integers without decimals."""
    whole = value == int(value) and abs(value) < _WHOLE
    return f"{int(value):,}".replace("-", "−") if whole else show_value(value)


def _shares(counts: Sequence[int]) -> list[float]:
    total = max(1, sum(counts))
    return [count / total for count in counts]


def _shape(
    train: Sequence[float], held_out: Sequence[float], low: str, high: str
) -> HistogramShape:
    highest = max(*train, *held_out)
    step = WIDTH / len(train)
    tops = [[HEIGHT * (1 - share / highest) for share in part] for part in (train, held_out)]
    bars = tuple(
        (round(at * step, 2), round(top, 2), round(step - 1, 2), round(HEIGHT - top, 2))
        for at, top in enumerate(tops[0])
    )
    ends = tuple(
        (round(x, 2), round(top, 2))
        for at, top in enumerate(tops[1])
        for x in (at * step, (at + 1) * step)
    )
    return HistogramShape(bars, ends if sum(held_out) else (), low, high)
