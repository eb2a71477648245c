"""Evaluation of a model: metrics with intervals, by slice, beside the baselines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

import numpy as np
import polars as pl

from trainwright.contract.sections.metric import (
    METRICS,
    REACHED_BY_CONSTANTS,
    Metric,
    Slice,
    steering_metric,
)
from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.inputs import Floats, Integers, Part
from trainwright.data.columns.target import Target
from trainwright.evaluation.clause import DUMMY, LINEAR
from trainwright.evaluation.curves.plot_data import Curves, draw_curves
from trainwright.evaluation.evaluation_result import Evaluation, Intervals, SliceScore, TargetScore
from trainwright.evaluation.evaluation_warnings import (
    LinearBaseline,
    Size,
    better_baselines,
    find_warnings,
    low_target,
    note_undefined,
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
from trainwright.evaluation.metrics.predictions import Answers, answers_of, count_units

MOST_VALUES = 100
"""Maximum number of slices of a column."""

MODEL = "model"


@dataclass(frozen=True, slots=True)
class SliceRows:
    """Rows of one slice: their positions in the frame, and its index in the contract."""

    name: str
    number: int
    rows: Integers


def find_slices(slices: Sequence[Slice], frame: pl.DataFrame) -> tuple[SliceRows, ...]:
    """Rows of every slice of the contract, in its order; values of a column are sorted.

    A missing value is a slice of its own, `column=missing`. Called on the training rows before
    training, to find mistakes early.

    Raises:
        Mistake: an unknown column or invalid condition, all of them at once.
    """
    found: list[SliceRows] = []
    problems: list[Problem] = []
    for number, section in enumerate(slices):
        try:
            if section.column:
                found.extend(_by_column(section, number, frame))
            else:
                found.append(_by_condition(section, number, frame))
        except Mistake as mistake:
            problems.extend(mistake.problems)
    if problems:
        raise Mistake(problems)
    return tuple(found)


def _by_column(section: Slice, number: int, frame: pl.DataFrame) -> list[SliceRows]:
    path = f"slices.{number}.column"
    name = section.column
    if name not in frame.columns:
        raise Mistake(_no_column(path, name, frame))
    column = frame[name]
    count = column.n_unique()
    if count > MOST_VALUES:
        raise Mistake(
            Problem(
                f"the column {name!r} has too many values for a slice each",
                path=path,
                found=f"{count:,} values",
                expected=f"at most {MOST_VALUES}",
                fix=f"slice by a condition instead, for example where: {name} > ...",
            )
        )
    values = column.unique().drop_nulls().sort()
    parts = [
        SliceRows(f"{name}={_show(value)}", number, _positions(column == value)) for value in values
    ]
    if column.null_count():
        parts.append(SliceRows(f"{name}=missing", number, _positions(column.is_null())))
    return parts


def _by_condition(section: Slice, number: int, frame: pl.DataFrame) -> SliceRows:
    path = f"slices.{number}.where"
    try:
        answer = frame.select(pl.sql_expr(section.where).alias("answer"))["answer"]
    except pl.exceptions.ColumnNotFoundError as error:
        quoted = re.search(r'"([^"]*)"', str(error))
        missing = quoted.group(1) if quoted else section.where
        raise Mistake(_no_column(path, missing, frame)) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise Mistake(
            Problem(
                "the condition cannot be computed",
                path=path,
                found=f"{section.where} ({_first_line(error)})",
                expected="an SQL condition over columns of the data, for example age >= 65",
                fix="columns: " + ", ".join(frame.columns[:30]),
            )
        ) from error
    if answer.dtype != pl.Boolean or len(answer) != frame.height:
        raise Mistake(
            Problem(
                "the condition is not true or false for each row",
                path=path,
                found=f"{section.where} gives {len(answer):,} x {answer.dtype}",
                expected="a condition such as age >= 65 AND sex = 'Female'",
                fix="write a comparison",
            )
        )
    # A condition on a missing value is neither true nor false; the row is not in the slice.
    name = section.name or section.where
    return SliceRows(name, number, _positions(answer.fill_null(value=False)))


def _no_column(path: str, name: str, frame: pl.DataFrame) -> Problem:
    near = get_close_matches(name, frame.columns, n=1)
    return Problem(
        f"there is no column {name!r}",
        path=path,
        found=name,
        expected="one of " + ", ".join(frame.columns[:30]),
        fix=f"did you mean {near[0]!r}?" if near else "name a column of the data",
    )


def _first_line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]


def _show(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _positions(chosen: pl.Series) -> Integers:
    return np.flatnonzero(chosen.fill_null(value=False).to_numpy()).astype(np.int64)


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
            from trainwright.evaluation.metrics.retrieval import answers_of_retrieval

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
    judged = steering_metric(metric.name)
    linear = LinearBaseline(_intervals(found.baselines.get(LINEAR, {})), scored.shares)
    yield from note_undefined(metric.name, scored.part)
    yield from low_target(metric, found.baselines.get(DUMMY, {}))
    yield from wrong_coverage(scored.target.quantiles, found.of_model)
    yield from find_warnings(size, found.of_model, linear)
    if judged not in REACHED_BY_CONSTANTS:
        yield from better_baselines(judged, found.of_model, found.gains)


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
        from trainwright.evaluation.curves.retrieval_curves import draw_query_curves, query_names

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
    from trainwright.evaluation.curves.retrieval_curves import note_queries

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
