"""Permutation importance with intervals (Breiman 2001; Fisher, Rudin and Dominici 2019).

Input columns are permuted before they are encoded, so every family of models is treated alike: what
is derived from a column (parts of a date, terms of a text, its past) moves with it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.encoders.column_origins import columns_of_origins
from trainwright.data.encoders.table_encoder import TableEncoder
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling, interval_of
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    measure_lines,
)
from trainwright.evaluation.metrics.predictions import Answers, answers_of, number_units
from trainwright.predictor.predictor import Predictor

_PERMUTE = 0x7065726D
_MOST_RESAMPLES = 400


@final
@dataclass(frozen=True, slots=True)
class PermutedScores:
    """Scores of the rows unpermuted, and for each column those of each repeat of its permutation,
    [N, K] each."""

    answers: Answers
    by_column: Mapping[str, Sequence[Answers]]
    repeats: int


def score_permuted(
    predictor: Predictor, part: Part, repeats: int, seed: int, until: float
) -> PermutedScores:
    """Score the rows with each input column permuted, `repeats` times each, or as often as fits
    until `until` on the monotonic clock: at least once."""
    features = TableEncoder.of_kind(predictor.features)

    def scored(frame: pl.DataFrame) -> Answers:
        scores = predictor.score(features.transform(frame))
        target, decided = predictor.target, predictor.decide(scores)
        return answers_of(
            part.target,
            scores,
            target.positive_code,
            decided=decided,
            queries=target.queries(part.frame),
            quantiles=target.quantiles,
            costs=target.costs,
        )

    columns = columns_of_origins(features)
    found: dict[str, list[Answers]] = {origin: [] for origin in columns}
    done = 0
    while done < repeats and (not done or time.monotonic() < until):
        for at, (origin, names) in enumerate(columns.items()):
            draws = np.random.default_rng([seed, _PERMUTE, done, at])
            moved = permuted(part.frame, names, part.units, draws)
            found[origin].append(scored(moved))
        done += 1
    return PermutedScores(scored(part.frame), found, done)


def permuted(
    frame: pl.DataFrame, names: Sequence[str], units: Integers, draws: np.random.Generator
) -> pl.DataFrame:
    """Rows whose columns `names` [N] are permuted together: among units where they are constant
    within each unit, so that its rows still agree, else among rows."""
    own = frame.select(names)
    count, unit_of_row = number_units(units)
    donors = draws.permutation(frame.height)
    if count < frame.height:
        first = np.zeros(count, dtype=np.int64)
        first[unit_of_row[::-1]] = np.arange(frame.height)[::-1]
        if own[first[unit_of_row]].equals(own):
            donors = first[draws.permutation(count)][unit_of_row]
    return frame.with_columns(own[donors].get_columns())


def measure_importance(
    scores: PermutedScores, units: Integers, section: Metric, seed: int
) -> dict[str, Interval]:
    """What the metric loses by each permutation, a mean over the repeats, in the direction in which
    a loss is positive.

    The interval is a bootstrap of units that also draws the repeats: it covers other rows and other
    permutations, for this one model.
    """
    name = section.name
    assert name in METRICS, "the plan has decided the metric"
    resamples = min(section.resamples, _MOST_RESAMPLES)
    capped = section.model_copy(update={"resamples": resamples})
    draws = Resampling(units, resamples, seed)
    rows = np.arange(len(units))

    def measured(answers: Sequence[Answers]) -> list[ResampledMetric]:
        return measure_lines([MeasuredMetric(name, one, rows) for one in answers], capped, draws)

    (base,) = measured([scores.answers])
    sign = 1.0 if METRICS[name].direction == "max" else -1.0
    picks = np.random.default_rng([seed, _PERMUTE]).integers(
        0, scores.repeats, (scores.repeats, resamples)
    )
    return {
        origin: _loss(base, measured(answers), sign, picks, section.confidence)
        for origin, answers in scores.by_column.items()
    }


def _loss(
    base: ResampledMetric,
    repeats: Sequence[ResampledMetric],
    sign: float,
    picks: Integers,
    confidence: float,
) -> Interval:
    """Loss over the repeats; `picks` [R, B] are the repeats drawn for each resample."""
    # Differences first: a column that is not read loses exactly 0.
    points = [sign * (base.interval.value - one.interval.value) for one in repeats]
    losses = sign * (base.values - np.stack([one.values for one in repeats]))
    drawn: Floats = losses[picks, np.arange(picks.shape[1])].mean(axis=0)
    return interval_of(float(np.mean(points)) + 0.0, drawn + 0.0, confidence, base.units)
