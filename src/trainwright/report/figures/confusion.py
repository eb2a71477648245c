"""Confusion matrix: a table for few classes, a heat map for many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.evaluation.curves.plot_data import ClassificationCurves, Curves
from trainwright.report.figures.evaluation_figures import draw_heat
from trainwright.report.figures.svg_figure import Figure
from trainwright.report.format import show_share, show_value

_MOST_CLASSES = 12
_MOST_MIXED_UP = 20
_DARKEST = 0.55


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
