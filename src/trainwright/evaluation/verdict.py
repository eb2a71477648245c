"""The verdict: each clause judged by its whole interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from trainwright.contract.sections.metric import METRICS, REACHED_BY_CONSTANTS, Metric, Slice
from trainwright.core.files import Json
from trainwright.evaluation.clause import DUMMY, LINEAR, Clause, Status, gain_status, status_of
from trainwright.evaluation.evaluation_result import ALL_ROWS, Evaluation, SliceScore
from trainwright.evaluation.experiments.experiment import Experiment
from trainwright.evaluation.intervals.bootstrap import Interval

Decision = Status | Literal["invalid"]
"""`invalid`: the clauses are met, but would not be without the suspects of a finding, or by a model
that relies on a leak."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Met if every clause is met, missed if any is missed, otherwise undecided; invalid if an
    experiment shows that being met depends on a finding."""

    status: Decision
    clauses: tuple[Clause, ...]
    experiments: tuple[Experiment, ...] = ()

    @property
    def decisive(self) -> tuple[Experiment, ...]:
        """The experiments that make it invalid."""
        return tuple(one for one in self.experiments if one.outcome == "changes_decision")

    def with_experiments(self, experiments: Sequence[Experiment]) -> Verdict:
        """The verdict with the tested findings."""
        tried = replace(self, experiments=tuple(experiments))
        return replace(tried, status="invalid") if tried.decisive else tried

    def with_clauses(self, clauses: Sequence[Clause]) -> Verdict:
        """The verdict with further clauses, on which no finding has an effect."""
        together = (*self.clauses, *clauses)
        experiments = [
            replace(one, corrected=(*one.corrected, *clauses)) for one in self.experiments
        ]
        return Verdict(_overall([one.status for one in together]), together).with_experiments(
            experiments
        )

    def to_json(self) -> Json:
        """Plain JSON; bounds that are not given are null."""
        return {
            "status": self.status,
            "clauses": [one.to_json() for one in self.clauses],
            "findings": [one.to_json() for one in self.experiments],
        }

    @staticmethod
    def from_json(json: Json) -> Verdict:
        """The inverse of `to_json`; a verdict of an older version has no findings.

        Raises:
            ValueError: the status is not what clauses and findings give. KeyError, TypeError,
                AttributeError: something else is missing or of another type.
        """
        clauses = tuple(Clause.from_json(one) for one in json["clauses"])
        findings = tuple(Experiment.from_json(one) for one in json.get("findings", ()))
        whole = Verdict(_overall([clause.status for clause in clauses]), clauses)
        found = whole.with_experiments(findings)
        if found.status != json["status"]:
            raise ValueError(f"the verdict is {found.status} by its clauses, not {json['status']}")
        return found


def judge(
    metric: Metric, slices: Sequence[Slice], evaluation: Evaluation, *, is_linear: bool = False
) -> Verdict:
    """Judge the contract's metric and the floor of each slice that has one.

    `metric.name` is decided; an undecided target is treated as `every_baseline`. A slice with a
    floor and no rows is undecided. With `is_linear`, a model that scores every row as the linear
    baseline does is that baseline, and is held against the others alone. Whatever the target, a
    baseline that is better than the model is a clause, unless the target names another one.
    """
    clauses = _main_clauses(metric, evaluation, is_linear=is_linear)
    for number, section in enumerate(slices):
        if section.floor == "none":
            continue
        scores = [one for one in evaluation.slices if one.number == number]
        clauses.extend(_floor_clause(section, section.floor, one) for one in scores)
    return Verdict(_overall([clause.status for clause in clauses]), tuple(clauses))


def _main_clauses(metric: Metric, evaluation: Evaluation, *, is_linear: bool) -> list[Clause]:
    """The target's clauses, and a missed one for each further baseline that is better over the
    whole paired interval. With `target: baseline`, one that is better on these rows alone makes the
    verdict undecided; a linear model and the linear baseline differ by their penalties only."""
    name, direction = metric.name, METRICS[metric.name].direction
    gains = {who: _gain_clause(name, who, evaluation) for who in (DUMMY, *evaluation.gains)}
    match metric.target:
        case "baseline":
            clauses = [gains[DUMMY]]
        case "auto" | "every_baseline":
            of_linear = evaluation.gains.get(LINEAR, {}).values()
            if is_linear and all(one.value == one.low == one.high == 0.0 for one in of_linear):
                gains.pop(LINEAR, None)
            return list(gains.values())
        case float(target):
            interval = evaluation.metrics[name]
            status = status_of(interval, target, direction)
            clauses = [Clause(_condition(name, target), name, ALL_ROWS, target, interval, status)]
        case baseline:
            return [_gain_clause(name, baseline, evaluation)]
    if name in REACHED_BY_CONSTANTS:
        return clauses
    for who, clause in gains.items():
        value = clause.interval.value
        is_worse = value < 0 if direction == "max" else value > 0
        by_value = metric.target == "baseline" and not (is_linear and who == LINEAR)
        if is_worse and clause not in clauses and (clause.status == "missed" or by_value):
            clauses.append(clause)
    return clauses


def _gain_clause(name: str, who: str, evaluation: Evaluation) -> Clause:
    baseline = "baseline" if who == DUMMY else f"{who} baseline"
    direction = METRICS[name].direction
    gain = evaluation.gains.get(who, {}).get(name, Interval(math.nan, -math.inf, math.inf))
    sign = ">" if direction == "max" else "<"
    status = gain_status(gain, direction)
    condition = f"{name} minus {baseline} {sign} 0"
    return Clause(condition, name, ALL_ROWS, 0.0, gain, status, who)


def _floor_clause(section: Slice, floor: float, score: SliceScore) -> Clause:
    status: Status = "undecided"
    if score.rows >= section.min_rows:
        status = status_of(score.interval, floor, METRICS[score.metric].direction)
    name = f"{_condition(score.metric, floor)} on {score.name}"
    return Clause(name, score.metric, score.name, floor, score.interval, status)


def _condition(metric: str, target: float) -> str:
    sign = ">=" if METRICS[metric].direction == "max" else "<="
    return f"{metric} {sign} {target:g}"


def _overall(statuses: Sequence[Status]) -> Status:
    if "missed" in statuses:
        return "missed"
    return "undecided" if "undecided" in statuses else "met"
