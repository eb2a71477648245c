"""Evaluation of a model: metrics with intervals, by slice and against the baselines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric, steering_metric
from trainwright.contract.sections.slices import Slice
from trainwright.evaluation.baselines.naive_forecasts import DRIFT, PERSISTENCE, SEASONAL
from trainwright.evaluation.clause import DUMMY, LINEAR
from trainwright.evaluation.curves.plot_data import (
    Curves,
    draw_curves,
)
from trainwright.evaluation.evaluation_result import Evaluation, Intervals, SliceScore, TargetScore
from trainwright.evaluation.evaluation_warnings import (
    LinearBaseline,
    Size,
    better_forecasts,
    find_warnings,
    low_target,
    wrong_coverage,
)
from trainwright.evaluation.intervals.bootstrap import Interval, Resampling, method_of
from trainwright.evaluation.intervals.resampled_metrics import (
    MeasuredMetric,
    ResampledMetric,
    gain_of,
    measure_lines,
)
from trainwright.evaluation.metrics.metric_values import metrics_of
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.resampling_units import count_units
from trainwright.evaluation.scored_part import MODEL, Scored
from trainwright.evaluation.slice_rows import SliceRows, find_slices


def evaluate(scored: Scored, metric: Metric, slices: Sequence[Slice], seed: int) -> Evaluation:
    """Measure the model, each slice and each baseline on the same resamples of the part.

    `metric` gives the confidence, the number of resamples and the options of single metrics.

    Raises:
        Mistake: a slice that cannot be computed from the part's columns.
    """
    found = find_slices(slices, scored.part.frame)
    answers = _answers(scored)
    lines = _lines(answers, metrics_of(scored.target))
    of_slices = _slice_lines(answers[MODEL], found, slices, metric)
    draws = Resampling(scored.part.units, metric.resamples, seed)
    measured = measure_lines([*lines.values(), *of_slices], metric, draws)
    by_line = dict(zip(lines, measured, strict=False))
    found_metrics = _compare(by_line, scored.baselines, metric)
    size = Size(len(scored.part), count_units(scored.part.units))
    return Evaluation(
        part=scored.part.name,
        rows=size.rows,
        units=size.units,
        confidence=metric.confidence,
        metrics=_intervals(found_metrics.of_model),
        slices=tuple(
            SliceScore(one.name, line.metric, len(one.rows), each.interval, one.number)
            for one, line, each in zip(found, of_slices, measured[len(lines) :], strict=True)
        ),
        baselines=found_metrics.of_baselines,
        gains=found_metrics.gains,
        curves=_curves(scored, answers, metric),
        warnings=(
            *scored.notes,
            *_query_notes(answers[MODEL], metric),
            *_pool_notes(scored),
            *_doubts(scored, metric, size, found_metrics),
        ),
        method=method_of(size.units, in_folds=scored.folds is not None),
        targets=_targets(scored, answers, metric, draws),
    )


class _Compared(NamedTuple):
    """Metrics of the model and of each baseline, and the paired gains over it."""

    of_model: Mapping[str, ResampledMetric]
    baselines: Mapping[str, Mapping[str, ResampledMetric]]
    gains: Mapping[str, Intervals]

    @property
    def of_baselines(self) -> dict[str, dict[str, Interval]]:
        """The intervals of each baseline."""
        return {who: _intervals(each) for who, each in self.baselines.items()}


def _compare(
    by_line: Mapping[tuple[str, str], ResampledMetric], names: Iterable[str], metric: Metric
) -> _Compared:
    of_model = _of(MODEL, by_line)
    baselines = {who: _of(who, by_line) for who in names}
    gains = {
        who: {name: gain_of(of_model[name], each[name], metric.confidence) for name in each}
        for who, each in baselines.items()
    }
    return _Compared(of_model, baselines, gains)


def _doubts(scored: Scored, metric: Metric, size: Size, found: _Compared) -> Iterator[str]:
    """Warnings that the metrics themselves give reason for."""
    judged, gains = steering_metric(metric.name), found.gains
    naive = {who: gains[who] for who in (PERSISTENCE, SEASONAL, DRIFT) if who in gains}
    of_linear = _intervals(found.baselines.get(LINEAR, {}))
    linear = LinearBaseline(of_linear, gains.get(LINEAR, {}), scored.shares)
    yield from low_target(metric, found.baselines.get(DUMMY, {}))
    yield from wrong_coverage(scored.target.quantiles, found.of_model)
    yield from find_warnings(judged, size, found.of_model, linear)
    yield from better_forecasts(judged, found.of_model, naive)


def _targets(
    scored: Scored, answers: Mapping[str, Answers], metric: Metric, draws: Resampling
) -> tuple[TargetScore, ...]:
    """Each of several targets by itself, on the same resamples; none of one."""
    if not scored.target.target_names:
        return ()
    # Imported here: few targets are several.
    from trainwright.evaluation.metrics.several_metrics import metrics_of_each

    names = metrics_of_each(answers[MODEL])
    found = []
    for at, name in enumerate(scored.target.target_names):
        lines = _lines({who: one.each()[at] for who, one in answers.items()}, names)
        by_line = dict(zip(lines, measure_lines(list(lines.values()), metric, draws), strict=True))
        one = _compare(by_line, scored.baselines, metric)
        found.append(TargetScore(name, _intervals(one.of_model), one.of_baselines, one.gains))
    return tuple(found)


def _curves(scored: Scored, answers: Mapping[str, Answers], metric: Metric) -> Curves:
    # Imported here, as everything that only rankings and series need.
    if scored.target.query:
        from trainwright.evaluation.curves.query_curves import draw_query_curves, query_names

        names = query_names(scored.target, scored.part.frame)
        return draw_query_curves(answers[MODEL], metric, names)
    if scored.target.task == "retrieval":
        from trainwright.evaluation.curves.retrieval_curves import draw_retrieval

        return draw_retrieval(scored.target, answers, scored.part.target)
    if scored.target.task == "forecasting":
        from trainwright.evaluation.curves.draw_forecasts import draw_forecasts

        return draw_forecasts(scored.part, answers, MODEL)
    return draw_curves(answers[MODEL], scored.target)


def _query_notes(answers: Answers, metric: Metric) -> tuple[str, ...]:
    if answers.queries is None:
        return ()
    from trainwright.evaluation.curves.query_curves import note_queries

    return note_queries(answers, metric)


def _pool_notes(scored: Scored) -> tuple[str, ...]:
    if scored.target.task != "retrieval":
        return ()
    from trainwright.evaluation.curves.retrieval_curves import note_candidates

    return note_candidates(scored.target, scored.part.target)


def _of(who: str, by_line: Mapping[tuple[str, str], ResampledMetric]) -> dict[str, ResampledMetric]:
    return {name: one for (whose, name), one in by_line.items() if whose == who}


def _intervals(measured: Mapping[str, ResampledMetric]) -> dict[str, Interval]:
    return {name: one.interval for name, one in measured.items()}


def _answers(scored: Scored) -> dict[str, Answers]:
    return {who: scored.answers(who) for who in (MODEL, *scored.baselines)}


def _lines(
    answers: Mapping[str, Answers], names: Sequence[str]
) -> dict[tuple[str, str], MeasuredMetric]:
    rows = np.arange(len(answers[MODEL]))
    return {
        (who, name): MeasuredMetric(name, each, rows)
        for who, each in answers.items()
        for name in names
    }


def _slice_lines(
    answers: Answers, found: Sequence[SliceRows], slices: Sequence[Slice], metric: Metric
) -> list[MeasuredMetric]:
    lines = []
    for one in found:
        wanted = slices[one.number].metric
        name = metric.name if wanted == "auto" else wanted
        assert name in METRICS, "the plan has decided the metric"
        lines.append(MeasuredMetric(name, answers.take(one.rows), one.rows))
    return lines
