"""`report.html` of a search: what was tried, what was kept and why, and what the best of so many
trials is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from trainwright.core.files import write_text
from trainwright.core.formatting import many, show_price, show_seconds
from trainwright.core.redaction import redact
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.report.figures.bars import Bar, draw_bar, scale_of
from trainwright.report.figures.study_figures import draw_study, show_tried, show_values
from trainwright.report.format import clean_lines, show_change, show_range, show_value
from trainwright.report.load_run import StoredEvaluation, read_contents
from trainwright.report.page import page_environment, write_report
from trainwright.report.sections.record_section import Fact
from trainwright.tune.importance import Importance, estimate_importance
from trainwright.tune.proposals import search_method
from trainwright.tune.read_study import StoredChoice, StoredStudy, read_study
from trainwright.tune.run_study import StudyResult
from trainwright.tune.space import Axis, Space
from trainwright.tune.study import Trial

_TEMPLATE = "study.html.jinja"
_CONTRACT_LETTERS = 20_000
_MOST_TRIALS = 1_000

Judged = Sequence[StoredEvaluation]
"""The kept run's evaluation; none before it was judged."""


@final
@dataclass(frozen=True, slots=True)
class SearchedRow:
    """A searched path: its values, where it is searched, and the share of the variance of the value
    that it explains, in percent; nan without an estimate."""

    path: str
    values: str
    condition: str
    share: float


@final
@dataclass(frozen=True, slots=True)
class ScoreRow:
    """A value of the metric, or a gain, and the rows that it was measured on."""

    name: str
    rows: str
    value: str
    range: str
    bar: Bar


@final
@dataclass(frozen=True, slots=True)
class ScoreTable:
    """Values on one scale."""

    title: str
    rows: tuple[ScoreRow, ...]


@final
@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial of the table, with what is special of it: kept, the best, pruned or failed. `tried`
    has its values in the order of the searched paths."""

    number: int
    mark: str
    chosen: bool
    state: str
    value: str
    gain: str
    time: str
    price: str
    size: str
    tried: tuple[str, ...]


def write_study_report(folder: Path) -> Path:
    """Write `report.html` from a study's folder and return its path. A study that has not ended
    shows the trials so far.

    Raises:
        DamagedFile: a file of the study. StorageFailed: the page cannot be written; an older one is
            kept.
    """
    study = read_study(folder)
    write_text(study.folder.report, render_study(study))
    return study.folder.report


def report_study(result: StudyResult) -> None:
    """Write the reports of an ended study and of its judged run, and let its trackers have them."""
    write_report(result.result.folder)
    write_study_report(result.folder.path)
    for sinks in result.sinks:
        sinks.finish()


def render_study(study: StoredStudy) -> str:
    """The page: no scripts, no external resources, all text of the data escaped."""
    importance = estimate_importance(study.space, study.complete, study.direction)
    # The paths that matter come first, in tables and figures.
    ordered = sorted(study.space.axes, key=lambda axis: -importance.shares.get(axis.path, 0.0))
    study = replace(study, space=Space(tuple(ordered)))
    verdicts, scores = list[StudyVerdict](), list[ScoreTable]()
    if study.choice != "none":
        judged = read_contents(study.run_of(study.choice.trial)).judged
        verdicts = [_verdict(study, study.choice, judged)]
        scores = _scores(study, study.choice, judged)
    template = page_environment().get_template(_TEMPLATE)
    return template.render(
        name=study.folder.path.resolve().name,
        head=_head(study),
        metric=study.metric,
        rows=study.rows,
        seeds=study.section.seeds,
        confidence=f"{study.confidence:.0%}",
        verdicts=verdicts,
        scores=scores,
        searched=[_path_row(axis, importance) for axis in study.space.axes],
        conditional=any(axis.section.only_with for axis in study.space.axes),
        importance=importance,
        figures=draw_study(study),
        priced=any(trial.outcome.price for trial in study.trials),
        columns=_columns(study.space.axes),
        trials=[_trial_row(study, trial) for trial in study.trials[:_MOST_TRIALS]],
        hidden=len(study.trials[_MOST_TRIALS:]),
        contract=clean_lines(redact(study.contract), _CONTRACT_LETTERS),
        overrides=[redact(override) for override in study.overrides],
    )


def _head(study: StoredStudy) -> tuple[Fact, ...]:
    states = [trial.outcome.state for trial in study.trials]
    ends = ", ".join(
        f"{states.count(state)} {state}" for state in ("pruned", "failed") if state in states
    )
    better = "higher" if study.direction == "max" else "lower"
    method = search_method(study.section, study.space)
    price = sum(trial.outcome.price for trial in study.trials)
    facts = (
        Fact("Metric", f"{study.metric}, {better} is better" if study.metric else ""),
        Fact("Trials", f"{len(states)}{f' ({ends})' if ends else ''}"),
        Fact("Method", study.section.method if study.choice == "none" else method),
        Fact("Time", show_seconds(study.seconds)),
        Fact("Price", show_price(price) if price else ""),
    )
    return tuple(fact for fact in facts if fact.value)


@final
@dataclass(frozen=True, slots=True)
class StudyVerdict:
    """What came of the search: the winner's judged status, its report, and sentences on what was
    kept, why, and what its value is worth."""

    status: str
    report: str
    sentences: tuple[str, ...]


def _verdict(study: StoredStudy, choice: StoredChoice, judged: Judged) -> StudyVerdict:
    run, of_many = study.run_of(choice.trial), choice.of_many
    sentences = [f"Kept: {_label(choice.trial)}, {_reason(study, choice)}."]
    if choice.trial:
        claim = "is better" if choice.is_claimed else "is not shown to be better"
        beyond = f"after {many(of_many.count, 'trial')} (p = {of_many.p:.3f})"
        sentences.append(f"It {claim} than the contract as written {beyond}.")
    for evaluation in judged:
        if interval := evaluation.evaluation.metrics.get(study.metric):
            value = f"{show_value(interval.value)} ({show_range(interval)})"
            part = evaluation.evaluation.part
            sentences.append(f"On the {part} rows, opened for it alone, {study.metric} is {value}.")
    status = judged[0].verdict.status if judged else "not judged"
    report = run.report.relative_to(study.folder.path).as_posix() if run.report.is_file() else ""
    return StudyVerdict(status, report, tuple(sentences))


def _reason(study: StoredStudy, choice: StoredChoice) -> str:
    """Why a trial is kept."""
    if choice.trial != choice.best:
        return f"the smallest model whose paired interval reaches that of {_label(choice.best)}"
    if study.section.choice == "simplest":
        return "the best value, which no smaller model reaches within its paired interval"
    return "the best value"


def _label(number: int) -> str:
    return f"trial {number}" if number else "the contract as written"


def _scores(study: StoredStudy, choice: StoredChoice, judged: Judged) -> list[ScoreTable]:
    """The validation values that the choice saw next to the value on the test rows, and the gains
    over the contract as written."""
    values = {trial.number: trial.outcome.value for trial in study.trials}
    best = f"Best of {many(choice.of_many.count, 'trial')}"
    rows = [
        ("Contract as written", values.get(0)),
        (f"{best}: {_label(choice.best)}", choice.of_many.value),
        ("What other rows let expect of the best", choice.of_many.worth),
        (f"Kept: {_label(choice.trial)}", values.get(choice.trial)),
    ]
    measured = [
        (name, study.rows, Interval(value, -math.inf, math.inf))
        for name, value in rows
        if value is not None
    ]
    for stored in judged:
        if interval := stored.evaluation.metrics.get(study.metric):
            measured.append((f"Kept: {_label(choice.trial)}", stored.evaluation.part, interval))
    names = dict.fromkeys((choice.best, choice.trial))
    gains = [
        (_label(number).capitalize(), study.rows, choice.gains[number])
        for number in names
        if number and number in choice.gains
    ]
    tables = [ScoreTable(study.metric, _score_rows(measured, ()))]
    if gains:
        tables.append(
            ScoreTable("Difference from the contract as written", _score_rows(gains, (0.0,)))
        )
    return tables


def _score_rows(
    measured: Sequence[tuple[str, str, Interval]], target: Sequence[float]
) -> tuple[ScoreRow, ...]:
    scale = scale_of([interval for *_, interval in measured], target)
    return tuple(
        ScoreRow(
            name,
            rows,
            show_change(interval.value) if target else show_value(interval.value),
            show_range(interval),
            draw_bar(interval, target[0] if target else math.nan, scale),
        )
        for name, rows, interval in measured
    )


def _path_row(axis: Axis, importance: Importance) -> SearchedRow:
    condition = "; ".join(
        f"{path} is {' or '.join(map(show_tried, value if isinstance(value, tuple) else (value,)))}"
        for path, value in axis.section.only_with.items()
    )
    share = importance.shares.get(axis.path, math.nan)
    return SearchedRow(axis.path, show_values(axis), condition, round(100 * share, 1))


def _columns(axes: Sequence[Axis]) -> list[str]:
    """Last parts of the paths, or whole paths where two end alike."""
    ends = [axis.path.rpartition(".")[2] for axis in axes]
    return [
        end if ends.count(end) == 1 else axis.path for end, axis in zip(ends, axes, strict=True)
    ]


def _trial_row(study: StoredStudy, trial: Trial) -> TrialRow:
    outcome, choice = trial.outcome, study.choice
    gain, marks = "", list[str]()
    if choice != "none":
        marks = ["kept"] * (trial.number == choice.trial) + ["best"] * (trial.number == choice.best)
        if trial.number and (interval := choice.gains.get(trial.number)):
            bounds = f" ({show_change(interval.low)} to {show_change(interval.high)})"
            gain = f"{show_change(interval.value)}{bounds * interval.given}"
    tried = [trial.params.get(axis.path, "") for axis in study.space.axes]
    failed = outcome.state == "failed"
    return TrialRow(
        number=trial.number,
        mark=", ".join(marks) if marks or outcome.state == "complete" else outcome.state,
        chosen=bool(marks),
        state=f"failed: {outcome.reason}" if failed else outcome.state,
        value="" if outcome.value is None else show_value(outcome.value),
        gain=gain,
        time=show_seconds(outcome.seconds),
        price=show_price(outcome.price),
        size="" if failed else f"{show_value(outcome.megabytes)} MB",
        tried=tuple(map(show_tried, tried)),
    )
