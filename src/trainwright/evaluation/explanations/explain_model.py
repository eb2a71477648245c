"""Explanation of a model within stated samples and a stated time."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Part
from trainwright.data.encoders.column_origins import columns_of_origins
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.data.subsample import sampled, sampled_judged
from trainwright.evaluation.explanations.contributions import contributions_of, has_contributions
from trainwright.evaluation.explanations.explanation import ColumnImportance, Explanation
from trainwright.evaluation.explanations.partial_dependence import find_dependences
from trainwright.evaluation.explanations.permutation_importance import (
    measure_importance,
    score_permuted,
)
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import count_units
from trainwright.predictor.predictor import Predictor

_FEWEST_ROWS = 200
_SHARE_OF_SCORING, _SHARE_OF_IMPORTANCE = 0.3, 0.5
"""Of the time: what one repeat of all permutations may take, and when the repeats end."""


@final
@dataclass(frozen=True, slots=True)
class Effort:
    """The most rows whose columns are permuted, permutations of each column, rows of a partial
    dependence and of contributions, columns with a partial dependence, and seconds in all."""

    rows: int = 2000
    repeats: int = 5
    dependence_rows: int = 500
    dependences: int = 5
    seconds: float = 60.0


def explain_model(
    predictor: Predictor, part: Part, section: Metric, seed: int, effort: Effort
) -> Explanation:
    """Measure on the rows of a part what a model reads. Where the time does not suffice there are
    fewer rows, repeats or partial dependences, and a note says so."""
    begin = time.monotonic()
    affordable = _affordable_rows(predictor, part, effort, seed)
    rows = sampled_judged(part, predictor.target, affordable, seed)
    until = begin + _SHARE_OF_IMPORTANCE * effort.seconds
    scores = score_permuted(predictor, rows, effort.repeats, seed, until)
    losses = measure_importance(scores, rows.units, section, seed)
    few = sampled(rows, effort.dependence_rows, seed)
    means = _mean_contributions(predictor, few)
    importances = sorted(
        (ColumnImportance(name, loss, means.get(name, math.nan)) for name, loss in losses.items()),
        key=lambda one: (
            -one.loss.value if math.isfinite(one.loss.value) else math.inf,
            one.column,
        ),
    )
    most = [one.column for one in importances[: effort.dependences]]
    dependences = find_dependences(predictor, few, most, begin + effort.seconds)
    notes = []
    if len(rows) < min(effort.rows, len(part)) or scores.repeats < effort.repeats:
        notes.append(
            f"{effort.seconds:g} s allowed {len(rows):,} rows and {scores.repeats} of "
            f"{effort.repeats} repeats; --seconds gives it more"
        )
    return Explanation(
        part=part.name,
        rows=len(rows),
        of=len(part),
        units=count_units(rows.units),
        repeats=scores.repeats,
        metric=section.name,
        value=measure(section.name, scores.answers, section),
        confidence=section.confidence,
        seconds=round(time.monotonic() - begin, 3),
        importances=tuple(importances),
        dependences=dependences,
        notes=tuple(notes),
    )


def _affordable_rows(predictor: Predictor, part: Part, effort: Effort, seed: int) -> int:
    """Rows for which one repeat of all permutations fits, by the time of a first scoring."""
    features = TableEncoder.of_kind(predictor.features)
    trial = sampled(part, min(effort.rows, _FEWEST_ROWS), seed)
    predictor.score(features.transform(trial.frame))  # the first call loads libraries
    begin = time.monotonic()
    predictor.score(features.transform(trial.frame))
    of_a_row = (time.monotonic() - begin) / max(1, len(trial))
    of_a_repeat = of_a_row * len(columns_of_origins(features))
    affordable = _SHARE_OF_SCORING * effort.seconds / max(of_a_repeat, 1e-9)
    return max(min(_FEWEST_ROWS, effort.rows), min(effort.rows, int(affordable)))


def _mean_contributions(predictor: Predictor, part: Part) -> Mapping[str, float]:
    """Mean absolute contribution of each input column, over rows and outputs; empty without, and
    of several targets, whose units differ."""
    if not has_contributions(predictor) or predictor.target.target_names:
        return {}
    columns = columns_of_origins(TableEncoder.of_kind(predictor.features))
    values = np.abs(contributions_of(predictor, part.frame)).mean(axis=(0, 1))
    return dict(zip(columns, values.tolist(), strict=False))
