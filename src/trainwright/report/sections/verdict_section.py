"""Verdict section: clauses, metrics, baselines and slices as table rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from trainwright.contract.sections.metric import METRICS
from trainwright.core.files import Json
from trainwright.evaluation.clause import DUMMY, Clause
from trainwright.evaluation.evaluate import MODEL
from trainwright.evaluation.evaluation_result import Evaluation, SliceScore
from trainwright.evaluation.experiments.experiment import Experiment, Outcome
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.verdict import Decision, Verdict
from trainwright.report.figures.bars import Bar, Scale, draw_bar, scale_of
from trainwright.report.format import count_text, show_change, show_range, show_value, show_when
from trainwright.report.load_run import StoredEvaluation

if TYPE_CHECKING:
    from trainwright.report.sections.target_tables import TargetTable

Word = Literal["met", "missed", "undecided", "not judged"]

_OUTCOMES: Mapping[Outcome, str] = {
    "changes_decision": "changes the decision",
    "accepted": "accepted",
    "measured": "worse, same decision",
    "not_measured": "no difference measured",
}
_ORDER: Mapping[str, int] = {"missed": 0, "undecided": 1, "met": 2, "not judged": 3}

_MEANINGLESS_MAPE = 100.0
"""A mean error of a hundred times the target comes from dividing by nearly 0."""


@final
@dataclass(frozen=True, slots=True)
class Row:
    """One measurement and its `status`."""

    name: str
    value: str
    range: str
    bar: Bar
    status: Word = "not judged"
    rows: int = 0
    more: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class SliceTable:
    """Slices measured by one metric, worst first, on one scale."""

    metric: str
    better: str
    overall: str
    rows: tuple[Row, ...]


@final
@dataclass(frozen=True, slots=True)
class FoldTable:
    """One metric by fold: (training rows, test rows, value), and its mean with the interval."""

    metric: str
    rows: tuple[tuple[int, int, str], ...]
    mean: str
    range: str


@final
@dataclass(frozen=True, slots=True)
class BaselineGains:
    """Gain of the model over the baselines in the contract's metric. `values` and `gains` have
    separate scales."""

    metric: str
    better: str
    values: tuple[Row, ...]
    gains: tuple[Row, ...]


@final
@dataclass(frozen=True, slots=True)
class SeedTable:
    """The contract's metric by seed on one split: (seed, value)."""

    metric: str
    rows: tuple[tuple[int, str], ...]
    mean: str
    deviation: str


@final
@dataclass(frozen=True, slots=True)
class TriedRow:
    """One tested finding. `write` is the contract line that resolves it."""

    name: str
    outcome: str
    numbers: str
    method: str
    write: str
    reason: str


@final
@dataclass(frozen=True, slots=True)
class JudgedView:
    """View of `evaluation.json`."""

    status: Decision
    sentence: str
    confidence: str
    part: str
    rows: str
    clauses: tuple[Row, ...]
    opened: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    baselines: tuple[BaselineGains, ...]
    metrics: tuple[Row, ...]
    compared: tuple[str, ...]
    targets: tuple[TargetTable, ...]
    slices: tuple[SliceTable, ...]
    folds: tuple[FoldTable, ...]
    seeds: tuple[SeedTable, ...]
    tried: tuple[TriedRow, ...]


def view_judged(judged: StoredEvaluation) -> JudgedView:
    """All tables in page order."""
    evaluation, verdict = judged.evaluation, judged.verdict
    rows = count_text(evaluation.rows, "row", "rows")
    if evaluation.units != evaluation.rows:
        rows += f" ({evaluation.units:,} independent units)"
    return JudgedView(
        status=verdict.status,
        sentence=_sentence(verdict),
        confidence=f"{evaluation.confidence * 100:g}%",
        part=evaluation.part,
        rows=rows,
        clauses=tuple(_clause_row(clause) for clause in verdict.clauses),
        opened=tuple((show_when(time), why) for time, why in judged.opened),
        warnings=evaluation.warnings,
        baselines=_baselines(evaluation, verdict),
        metrics=_metric_rows(evaluation, _judged_metric(evaluation, verdict)),
        compared=_strongest_first(evaluation.baselines),
        targets=_target_tables(evaluation, verdict),
        slices=_slice_tables(evaluation, verdict),
        folds=_fold_table(judged.by_fold, _judged_metric(evaluation, verdict)),
        seeds=_seed_table(judged.by_seed, _judged_metric(evaluation, verdict)),
        tried=tuple(_tried_row(one) for one in verdict.experiments),
    )


def _seed_table(by_seed: Mapping[str, Json], metric: str) -> tuple[SeedTable, ...]:
    """Seed table, if there are several seeds."""
    seeds = by_seed.get("seeds") or []
    if not seeds:
        return ()
    values = [math.nan if v is None else float(v) for v in by_seed["metrics"][metric]]
    rows = tuple((int(seed), show_value(v)) for seed, v in zip(seeds, values, strict=True))
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    return (SeedTable(metric, rows, show_value(mean), show_value(deviation)),)


def _tried_row(one: Experiment) -> TriedRow:
    is_open = one.outcome in ("changes_decision", "measured")
    reason = f"accepted: {one.reason}" if one.outcome == "accepted" else ""
    numbers = "" if math.isnan(one.before) else one.numbers
    outcome = _OUTCOMES[one.outcome]
    return TriedRow(one.name, outcome, numbers, one.method, one.write if is_open else "", reason)


def _fold_table(by_fold: Mapping[str, Json], metric: str) -> tuple[FoldTable, ...]:
    """Fold table, if there are folds."""
    folds = by_fold.get("folds") or []
    if not folds:
        return ()
    mean = Interval.from_json(by_fold["means"][metric])
    values = [one["metrics"][metric] for one in folds]
    rows = tuple(
        (int(one["train_rows"]), int(one["test_rows"]), show_value(math.nan if v is None else v))
        for one, v in zip(folds, values, strict=True)
    )
    return (FoldTable(metric, rows, show_value(mean.value), show_range(mean)),)


def better_words(metric: str) -> str:
    """Direction of improvement."""
    fact = METRICS.get(metric)
    if fact is None:
        return ""
    return "higher is better" if fact.direction == "max" else "lower is better"


def _sentence(verdict: Verdict) -> str:
    count = len(verdict.clauses)
    found = [clause.status for clause in verdict.clauses]
    match verdict.status:
        case "met":
            return (
                "The clause of the contract holds over its whole interval."
                if count == 1
                else f"All {count} clauses of the contract hold over their whole intervals."
            )
        case "missed":
            missed = count_text(found.count("missed"), "clause", "clauses")
            return f"{missed} of {count} missed: the whole interval lies on the wrong side."
        case "undecided":
            open_ones = count_text(found.count("undecided"), "clause", "clauses")
            return (
                f"{open_ones} of {count} undecided: the interval reaches over the target, or there "
                "are too few rows. More evaluation rows would decide it."
            )
        case "invalid":
            return (
                "The clauses are met with the help of "
                + " and ".join(one.name for one in verdict.decisive)
                + ", which the contract does not accept."
            )


def _clause_row(clause: Clause) -> Row:
    scale = scale_of([clause.interval], [clause.target])
    return Row(
        name=clause.name,
        value=show_value(clause.interval.value),
        range=show_range(clause.interval),
        bar=draw_bar(clause.interval, clause.target, scale),
        status=clause.status,
        more=(show_value(clause.target),),
    )


def _strongest_first(baselines: Iterable[str]) -> tuple[str, ...]:
    """Baselines from strongest to weakest."""
    return tuple(sorted(baselines, key=lambda who: (who == DUMMY, who)))


def _judged_metric(evaluation: Evaluation, verdict: Verdict) -> str:
    judged = [clause.metric for clause in verdict.clauses if clause.metric in evaluation.metrics]
    return judged[0] if judged else next(iter(evaluation.metrics), "")


def _baselines(evaluation: Evaluation, verdict: Verdict) -> tuple[BaselineGains, ...]:
    metric = _judged_metric(evaluation, verdict)
    order = _strongest_first(evaluation.baselines)
    beside = {who: evaluation.baselines[who][metric] for who in order}
    if not beside:
        return ()
    values = {MODEL: evaluation.metrics[metric], **beside}
    gains = {who: evaluation.gains[who][metric] for who in order}
    gain_scale = scale_of(list(gains.values()), [0.0])
    value_scale = scale_of(list(values.values()))
    return (
        BaselineGains(
            metric=metric,
            better=better_words(metric),
            values=tuple(_plain_row(who, one, value_scale) for who, one in values.items()),
            gains=tuple(
                Row(
                    f"model minus {who}",
                    show_change(one.value),
                    show_range(one),
                    draw_bar(one, 0.0, gain_scale),
                )
                for who, one in gains.items()
            ),
        ),
    )


def _plain_row(name: str, interval: Interval, scale: Scale, target: float = math.nan) -> Row:
    bar = draw_bar(interval, target, scale)
    return Row(name, show_value(interval.value), show_range(interval), bar)


def _metric_rows(evaluation: Evaluation, judged: str) -> tuple[Row, ...]:
    """The judged metric first, the others in the order of the contract's table."""
    order = [judged, *METRICS]
    compared = _strongest_first(evaluation.baselines)

    def place(item: tuple[str, Interval]) -> int:
        return order.index(item[0]) if item[0] in order else len(order)

    return tuple(
        Row(
            name=name,
            value=show_value(interval.value),
            range=show_range(interval),
            bar=draw_bar(interval, math.nan, scale_of([interval])),
            more=(
                _meaning(name, interval.value),
                *(show_value(evaluation.baselines[who][name].value) for who in compared),
            ),
        )
        for name, interval in sorted(evaluation.metrics.items(), key=place)
    )


def _meaning(metric: str, value: float) -> str:
    """Direction of improvement, or why the value is meaningless."""
    if metric == "mape" and value > _MEANINGLESS_MAPE:
        return "not meaningful: some targets are at or near 0"
    return better_words(metric)


def _target_tables(evaluation: Evaluation, verdict: Verdict) -> tuple[TargetTable, ...]:
    if not evaluation.targets:
        return ()
    # Imported here: few models have several targets.
    from trainwright.report.sections.target_tables import view_targets

    return view_targets(evaluation, _judged_metric(evaluation, verdict))


def _slice_tables(evaluation: Evaluation, verdict: Verdict) -> tuple[SliceTable, ...]:
    judged = {(clause.slice, clause.metric): clause for clause in verdict.clauses}
    metrics = dict.fromkeys(one.metric for one in evaluation.slices)
    return tuple(
        _slice_table(
            metric, [one for one in evaluation.slices if one.metric == metric], evaluation, judged
        )
        for metric in metrics
    )


def _slice_table(
    metric: str,
    scores: Sequence[SliceScore],
    evaluation: Evaluation,
    judged: Mapping[tuple[str, str], Clause],
) -> SliceTable:
    clauses = [judged[key] for one in scores if (key := (one.name, metric)) in judged]
    overall = evaluation.metrics.get(metric, Interval(math.nan, -math.inf, math.inf))
    targets = [clause.target for clause in clauses]
    scale = scale_of([one.interval for one in scores], [overall.value, *targets])
    rows = [_slice_row(one, scale, judged) for one in sorted(scores, key=_badness)]
    rows.sort(key=lambda row: _ORDER[row.status])
    return SliceTable(metric, better_words(metric), show_value(overall.value), tuple(rows))


def _slice_row(score: SliceScore, scale: Scale, judged: Mapping[tuple[str, str], Clause]) -> Row:
    clause = judged.get((score.name, score.metric))
    target = math.nan if clause is None else clause.target
    return Row(
        name=score.name,
        value=show_value(score.interval.value),
        range=show_range(score.interval),
        bar=draw_bar(score.interval, target, scale),
        status="not judged" if clause is None else clause.status,
        rows=score.rows,
        more=(show_value(target),),
    )


def _badness(score: SliceScore) -> tuple[bool, float, str]:
    value = score.interval.value
    fact = METRICS.get(score.metric)
    sign = -1.0 if fact is not None and fact.direction == "min" else 1.0
    # Undefined values sort last.
    return (math.isnan(value), 0.0 if math.isnan(value) else sign * value, score.name)
