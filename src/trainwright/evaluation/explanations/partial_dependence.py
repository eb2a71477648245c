"""Partial dependence of predictions on single columns (Friedman 2001, section 8.2)."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import polars as pl

from trainwright.data.base.categories import count_values
from trainwright.data.base.inputs import Floats, Part
from trainwright.data.columns.target import Target
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.evaluation.explanations.explanation import PartialDependence
from trainwright.predictor.predictor import Predictor

GRID = 20
MOST_CATEGORIES = 10
_MOST_OUTPUTS = 4


def find_dependences(
    predictor: Predictor, part: Part, columns: Sequence[str], until: float
) -> tuple[PartialDependence, ...]:
    """Partial dependence on each of the columns, in order, or as many as fit until `until` on the
    monotonic clock. Numbers and dates take up to 20 quantiles of these rows, categories their 10
    commonest values; free texts, and columns without two values, have none."""
    features = TableEncoder.of_kind(predictor.features)
    kinds = {column.name: column.kind for column in features.columns}
    found: list[PartialDependence] = []
    outputs = _outputs(predictor.target, predictor.score(features.transform(part.frame)))
    for column in columns:
        # A column of which only the past is read is no feature.
        kind = kinds.get(column, "text")
        if kind == "text" or len(grid := _grid(part.frame[column], kind)) < 2:
            continue
        if found and time.monotonic() >= until:
            break
        means = [
            _mean_at(predictor, features, part.frame, column, grid[at]) for at in range(len(grid))
        ]
        found.append(_dependence(column, grid, predictor.target, outputs, means))
    return tuple(found)


def _grid(values: pl.Series, kind: str) -> pl.Series:
    """Values of a column to predict at."""
    known = values.drop_nulls()
    if kind == "categorical":
        return count_values(known)["value"].head(MOST_CATEGORIES)
    ordered = known.sort()
    if not len(ordered):
        return ordered
    at = np.unique(np.linspace(0, len(ordered) - 1, GRID).round().astype(np.int64))
    return ordered.gather(at).unique().sort()


def _mean_at(
    predictor: Predictor, features: TableEncoder, frame: pl.DataFrame, column: str, value: object
) -> Floats:
    """Mean scores [K] when every row has this value."""
    same = pl.Series(column, [value], frame[column].dtype).new_from_index(0, frame.height)
    scores = predictor.score(features.transform(frame.with_columns(same.alias(column))))
    return np.asarray(scores.mean(axis=0))


def _outputs(target: Target, scores: Floats) -> list[int]:
    """The outputs shown: the positive of two classes, the likeliest of several, the value, or the
    median."""
    if target.quantiles:
        return [target.quantiles.index(0.5)]
    if target.target_names:
        return list(range(target.outputs))[:_MOST_OUTPUTS]
    if target.outputs <= 2:
        return [target.positive_code % target.outputs]
    return [int(code) for code in np.argsort(-scores.mean(axis=0), kind="stable")[:_MOST_OUTPUTS]]


def _dependence(
    column: str, grid: pl.Series, target: Target, outputs: Sequence[int], means: Sequence[Floats]
) -> PartialDependence:
    is_ordered = grid.dtype.is_numeric()
    names = target.classes or target.target_names
    return PartialDependence(
        column=column,
        values=tuple(str(value) for value in grid.to_list()),
        numbers=tuple(map(float, grid.to_list())) if is_ordered else (),
        outputs=tuple(names[code] if names else target.column for code in outputs),
        means=tuple(tuple(float(row[code]) for code in outputs) for row in means),
    )
