"""Evaluation of a model: metrics with intervals, by slice and against the baselines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainwright.contract.sections.metric import METRICS, Metric, steering_metric
from trainwright.contract.sections.slices import Slice
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.data.base.table import Floats, Integers, Part
from trainwright.data.columns.target_kind import Target
from trainwright.evaluation.baselines.naive_forecasts import DRIFT, PERSISTENCE, SEASONAL
from trainwright.evaluation.clause import DUMMY, LINEAR
from trainwright.evaluation.curves.plot_data import (
    Curves,
    curves_from_json,
    curves_to_json,
    draw_curves,
)
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
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.resampling_units import count_units
from trainwright.evaluation.slice_rows import SliceRows, find_slices

Intervals = Mapping[str, Interval]

MODEL = "model"
ALL_ROWS = "all rows"


@dataclass(frozen=True, slots=True)
class Scored:
    """A part with the scores of the model and the baselines.

    `scores` and each of `baselines` are [N, C] probabilities or [N, 1] values (for text the
    negative log-likelihood in nats of each segment), in the part's row order. `shares` is the
    contribution of each column to the linear baseline (summing to 1), which names the suspect if
    that baseline is near-perfect. `notes` are earlier warnings. `folds` is the fold [N] of each
    row, if models of folds scored them. `uncalibrated` are the model's scores before a calibration,
    `decided` the classes [N] that it chose by a threshold, if not by the highest probability.
    """

    part: Part
    target: Target
    scores: Floats
    baselines: Mapping[str, Floats] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    folds: Integers | None = None
    uncalibrated: Floats | None = None
    decided: Integers | None = None

    def answers(self, who: str = MODEL) -> Answers:
        """Answers of the model, or of a baseline."""
        of_model = who == MODEL
        if self.target.task == "retrieval":
            from trainwright.evaluation.metrics.retrieval_answers import answers_of_retrieval

            scores = self.scores if of_model else self.baselines[who]
            return answers_of_retrieval(self.target, self.part.target, scores)
        return answers_of(
            self.part.target,
            self.scores if of_model else self.baselines[who],
            self.target.positive_code,
            self.folds,
            self.decided if of_model else None,
            self.queries,
            self.target.quantiles,
            self.part.inputs.levels,
            self.target.costs,
        )

    @property
    def queries(self) -> Integers | None:
        """The query [N] of each row of a ranking."""
        return self.target.queries(self.part.frame)


@dataclass(frozen=True, slots=True)
class SliceScore:
    """A metric on one slice. `number` is the position of its slice in the contract."""

    name: str
    metric: str
    rows: int
    interval: Interval
    number: int


@dataclass(frozen=True, slots=True)
class TargetScore:
    """One of several targets by itself: the model's metrics, those of each baseline, and the paired
    gains over it."""

    name: str
    metrics: Intervals
    baselines: Mapping[str, Intervals]
    gains: Mapping[str, Intervals]

    def to_json(self) -> Json:
        """Plain JSON; undefined values are null."""
        return {
            "name": self.name,
            "metrics": _intervals_to_json(self.metrics),
            "baselines": {k: _intervals_to_json(v) for k, v in self.baselines.items()},
            "gains": {k: _intervals_to_json(v) for k, v in self.gains.items()},
        }

    @staticmethod
    def from_json(json: Json) -> TargetScore:
        """The inverse of `to_json`."""
        return TargetScore(
            json["name"],
            _intervals_from_json(json["metrics"]),
            {k: _intervals_from_json(v) for k, v in json["baselines"].items()},
            {k: _intervals_from_json(v) for k, v in json["gains"].items()},
        )


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Results on one part.

    `baselines` holds the metrics of each baseline, `gains` the model's value minus the baseline's
    with the interval of that difference over the same resamples (paired). `method` says how the
    intervals were found. `targets` holds several targets, each by itself.
    """

    part: str
    rows: int
    units: int
    confidence: float
    metrics: Intervals
    slices: tuple[SliceScore, ...]
    baselines: Mapping[str, Intervals]
    gains: Mapping[str, Intervals]
    curves: Curves
    warnings: tuple[str, ...]
    method: str = ""
    targets: tuple[TargetScore, ...] = ()

    def to_json(self) -> Json:
        """Plain JSON; undefined values are null."""
        return {
            "part": self.part,
            "rows": self.rows,
            "units": self.units,
            "confidence": self.confidence,
            "intervals": self.method or method_of(self.units),
            "metrics": _intervals_to_json(self.metrics),
            "slices": [
                {
                    "name": one.name,
                    "metric": one.metric,
                    "rows": one.rows,
                    "number": one.number,
                    **one.interval.to_json(),
                }
                for one in self.slices
            ],
            "baselines": {k: _intervals_to_json(v) for k, v in self.baselines.items()},
            "gains": {k: _intervals_to_json(v) for k, v in self.gains.items()},
            "curves": curves_to_json(self.curves),
            "warnings": list(self.warnings),
            **({"targets": [one.to_json() for one in self.targets]} if self.targets else {}),
        }

    def show_baselines(self, metric: str) -> list[str]:
        """`linear 0.8123`: the value of each baseline as text."""
        return [
            f"{name} {show_number(metrics[metric].value)}"
            for name, metrics in self.baselines.items()
            if metric in metrics
        ]

    @staticmethod
    def from_json(json: Json) -> Evaluation:
        """The inverse of `to_json`."""
        return Evaluation(
            part=json["part"],
            rows=json["rows"],
            units=json["units"],
            confidence=json["confidence"],
            metrics=_intervals_from_json(json["metrics"]),
            slices=tuple(
                SliceScore(
                    one["name"],
                    one["metric"],
                    one["rows"],
                    Interval.from_json(one),
                    one["number"],
                )
                for one in json["slices"]
            ),
            baselines={k: _intervals_from_json(v) for k, v in json["baselines"].items()},
            gains={k: _intervals_from_json(v) for k, v in json["gains"].items()},
            curves=curves_from_json(json["curves"]),
            warnings=tuple(json["warnings"]),
            method=json.get("intervals", ""),
            targets=tuple(map(TargetScore.from_json, json.get("targets", ()))),
        )


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
    of_model = _of(MODEL, by_line)
    baselines = {who: _of(who, by_line) for who in scored.baselines}
    size = Size(len(scored.part), count_units(scored.part.units))
    gains = {
        who: {name: gain_of(of_model[name], each[name], metric.confidence) for name in each}
        for who, each in baselines.items()
    }
    naive = {who: gains[who] for who in (PERSISTENCE, SEASONAL, DRIFT) if who in gains}
    linear = LinearBaseline(
        _intervals(baselines.get(LINEAR, {})), gains.get(LINEAR, {}), scored.shares
    )
    judged = steering_metric(metric.name)
    return Evaluation(
        part=scored.part.name,
        rows=size.rows,
        units=size.units,
        confidence=metric.confidence,
        metrics=_intervals(of_model),
        slices=tuple(
            SliceScore(one.name, line.metric, len(one.rows), each.interval, one.number)
            for one, line, each in zip(found, of_slices, measured[len(lines) :], strict=True)
        ),
        baselines={who: _intervals(each) for who, each in baselines.items()},
        gains=gains,
        curves=_curves(scored, answers, metric),
        warnings=(
            *scored.notes,
            *_query_notes(answers[MODEL], metric),
            *_pool_notes(scored),
            *low_target(metric, baselines.get(DUMMY, {})),
            *wrong_coverage(scored.target.quantiles, of_model),
            *find_warnings(judged, size, of_model, linear),
            *better_forecasts(judged, of_model, naive),
        ),
        method=method_of(size.units, in_folds=scored.folds is not None),
        targets=_targets(scored, answers, metric, draws),
    )


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
        of_model = _of(MODEL, by_line)
        baselines = {who: _of(who, by_line) for who in scored.baselines}
        gains = {
            who: {one: gain_of(of_model[one], each[one], metric.confidence) for one in each}
            for who, each in baselines.items()
        }
        own = {who: _intervals(each) for who, each in baselines.items()}
        found.append(TargetScore(name, _intervals(of_model), own, gains))
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


def _intervals_to_json(intervals: Intervals) -> Json:
    return {name: one.to_json() for name, one in intervals.items()}


def _intervals_from_json(json: Json) -> Intervals:
    return {name: Interval.from_json(one) for name, one in json.items()}
