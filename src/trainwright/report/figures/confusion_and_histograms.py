"""Confusion matrix, and histograms of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.statistics.profile import Distribution
from trainwright.evaluation.curves.plot_data import ClassificationCurves, Curves
from trainwright.report.figures.evaluation_figures import draw_heat
from trainwright.report.figures.svg_figure import Figure
from trainwright.report.format import show_share, show_value

_MOST_CLASSES = 12
_MOST_MIXED_UP = 20
_DARKEST = 0.55
WIDTH, HEIGHT = 240.0, 40.0
_WHOLE = 1e9


@final
@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `shade` is the opacity of its background, 0 to 1."""

    count: int
    share: str
    shade: float
    correct: bool


@final
@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One true class."""

    label: str
    rows: int
    cells: tuple[Cell, ...]


@final
@dataclass(frozen=True, slots=True)
class MixedUp:
    """A pair of confused classes."""

    true: str
    predicted: str
    count: int
    share: str


@final
@dataclass(frozen=True, slots=True)
class ClassRow:
    """Precision and recall of one class."""

    label: str
    rows: int
    precision: str
    recall: str
    f1: str


@final
@dataclass(frozen=True, slots=True)
class Confusion:
    """A matrix of few classes, or a heat map with the most confused pairs."""

    labels: tuple[str, ...]
    matrix: tuple[MatrixRow, ...] = ()
    heat: tuple[Figure, ...] = ()
    mixed_up: tuple[MixedUp, ...] = ()
    classes: tuple[ClassRow, ...] = ()


def view_confusion(curves: Curves) -> tuple[Confusion, ...]:
    """Confusion matrix of a classification; empty for regression."""
    if not isinstance(curves, ClassificationCurves) or not curves.labels:
        return ()
    counts = np.array(curves.confusion, dtype=np.int64)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    classes = _class_rows(curves.labels, counts)
    if len(curves.labels) <= _MOST_CLASSES:
        rows = [_row(*each) for each in enumerate(zip(curves.labels, counts, shares, strict=True))]
        return (Confusion(curves.labels, matrix=tuple(rows), classes=classes),)
    mixed_up = _mixed_up(curves.labels, counts, shares)
    heat = (draw_heat(shares),)
    return (Confusion(curves.labels, heat=heat, mixed_up=mixed_up, classes=classes),)


def _class_rows(labels: Sequence[str], counts: np.ndarray) -> tuple[ClassRow, ...]:
    """One-vs-rest metrics of each class; undefined shares are a dash."""
    hits = np.diag(counts).astype(np.float64)
    true, chosen = counts.sum(axis=1), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall, f1 = hits / chosen, hits / true, 2 * hits / (true + chosen)
    return tuple(
        ClassRow(label, int(true[at]), *(show_value(float(v[at])) for v in (precision, recall, f1)))
        for at, label in enumerate(labels)
    )


def _row(number: int, given: tuple[str, np.ndarray, np.ndarray]) -> MatrixRow:
    label, counts, shares = given
    cells = [
        Cell(int(count), show_share(share), round(float(share) * _DARKEST, 3), column == number)
        for column, (count, share) in enumerate(zip(counts, shares.tolist(), strict=True))
    ]
    return MatrixRow(label, int(counts.sum()), tuple(cells))


def _mixed_up(labels: Sequence[str], counts: np.ndarray, shares: np.ndarray) -> tuple[MixedUp, ...]:
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_MIXED_UP]
    pairs = [divmod(int(place), len(labels)) for place in order]
    return tuple(
        MixedUp(
            labels[row], labels[column], int(wrong[row, column]), show_share(shares[row, column])
        )
        for row, column in pairs
        if wrong[row, column]
    )


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
