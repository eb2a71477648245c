"""Greedy ensemble selection with replacement (Caruana et al. 2004, Ensemble selection from
libraries of models, doi:10.1145/1015330.1015432, sections 2.1 and 2.2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.subsample import drawn_rows
from trainwright.evaluation.candidates.compare_candidates import ComparedRows, best_of

_ROUNDS, _PATIENCE = 40, 10
_MOST_ROWS = 20_000
_PARTS = 5
_SHUFFLE = 0x63617275


@final
@dataclass(frozen=True, slots=True)
class SelectedEnsemble:
    """Weights by candidate, which sum to 1, and what they score on the rows that they were selected
    on. `scores` [N, C] or [N, 1] are cross-fitted: those of a row come from weights that were
    selected without its part of the rows, which `by_part` holds."""

    weights: Mapping[str, float]
    value_on_selected: float
    scores: Floats
    by_part: Mapping[int, Mapping[str, float]]


def select_ensemble(
    scores: Mapping[str, Floats], rows: ComparedRows, metric: Metric, seed: int
) -> SelectedEnsemble:
    """Select weights on all rows, and cross-fit them over the folds of the rows, or over five parts
    of their units."""
    weights = select_greedily(scores, rows, metric, seed)
    parts = parts_of(rows, seed)
    fitted = np.zeros_like(next(iter(scores.values())))
    by_part: dict[int, Mapping[str, float]] = {}
    for part in np.unique(parts):
        inside, outside = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        others = {name: each[outside] for name, each in scores.items()}
        found = by_part[int(part)] = select_greedily(others, rows.take(outside), metric, seed)
        fitted[inside] = mean_scores({name: scores[name][inside] for name in found}, found)
    value = rows.value(mean_scores(scores, weights), metric)
    return SelectedEnsemble(weights, value, fitted, by_part)


def select_greedily(
    scores: Mapping[str, Floats], rows: ComparedRows, metric: Metric, seed: int
) -> dict[str, float]:
    """Weights of the candidates above 0. Begins with the best one, adds the one that improves the
    metric most, any number of times, and keeps the best set. Of more than 20,000 rows so many are
    drawn."""
    if len(rows) > _MOST_ROWS:
        drawn = drawn_rows(len(rows), _MOST_ROWS, seed)
        rows, scores = rows.take(drawn), {name: one[drawn] for name, one in scores.items()}
    direction = METRICS[metric.name].direction
    values = {name: rows.value(one, metric) for name, one in scores.items()}
    bag = [best_of(values, direction)]
    total, best, kept = scores[bag[0]].copy(), values[bag[0]], 1
    for _ in range(_ROUNDS - 1):
        size = len(bag) + 1
        tried = {name: rows.value((total + one) / size, metric) for name, one in scores.items()}
        bag.append(best_of(tried, direction))
        total += scores[bag[-1]]
        value = tried[bag[-1]]
        if math.isnan(best) or (value > best if direction == "max" else value < best):
            best, kept = value, len(bag)
        if len(bag) - kept >= _PATIENCE:
            break
    return _shares(bag[:kept], tuple(scores))


def mean_scores(scores: Mapping[str, Floats], weights: Mapping[str, float]) -> Floats:
    """Weighted mean of scores."""
    found = [weight * scores[name] for name, weight in weights.items()]
    return np.asarray(sum(found[1:], start=found[0]))


def _shares(bag: Sequence[str], names: Sequence[str]) -> dict[str, float]:
    """How often each name is in the bag, in the order of the names."""
    return {name: bag.count(name) / len(bag) for name in names if name in bag}


def parts_of(rows: ComparedRows, seed: int) -> Integers:
    """Part [N] of each row, over which weights are cross-fitted: its fold, or without folds one of
    five, which rows of a unit share."""
    if rows.folds is not None:
        return rows.folds
    units, of_row = np.unique(rows.units, return_inverse=True)
    generator = np.random.Generator(np.random.PCG64([seed, _SHUFFLE]))
    return np.asarray((generator.permutation(len(units)) % _PARTS)[of_row], np.int64)
