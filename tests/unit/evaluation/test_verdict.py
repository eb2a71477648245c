from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from trainwright.contract.sections.metric import Metric, Slice
from trainwright.core.files import to_json
from trainwright.evaluation.curves.plot_data import RegressionCurves
from trainwright.evaluation.evaluation_result import Evaluation, SliceScore
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.verdict import Status, Verdict, gain_status, judge, status_of

UNKNOWN = Interval(0.9, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.90, 0.95, "met"),
        (0.8999, 0.95, "undecided"),
        (0.80, 0.90, "undecided"),
        (0.80, 0.8999, "missed"),
        (0.90, 0.90, "met"),
        (-math.inf, math.inf, "undecided"),
    ],
)
def test_more_is_better(low: float, high: float, expected: Status) -> None:
    assert status_of(Interval(0.9, low, high), 0.9, "max") == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.05, 0.10, "met"),
        (0.05, 0.1001, "undecided"),
        (0.10, 0.15, "undecided"),
        (0.1001, 0.15, "missed"),
        (-math.inf, math.inf, "undecided"),
    ],
)
def test_less_is_better(low: float, high: float, expected: Status) -> None:
    assert status_of(Interval(0.1, low, high), 0.1, "min") == expected


@pytest.mark.parametrize(
    ("low", "high", "upwards", "downwards"),
    [
        (0.01, 0.2, "met", "missed"),
        (0.0, 0.2, "undecided", "missed"),
        (-0.1, 0.1, "undecided", "undecided"),
        (-0.2, 0.0, "missed", "undecided"),
        (-0.2, -0.01, "missed", "met"),
        (0.0, 0.0, "missed", "missed"),
        (-math.inf, math.inf, "undecided", "undecided"),
    ],
)
def test_a_gain_must_be_more_than_nothing(
    low: float, high: float, upwards: Status, downwards: Status
) -> None:
    assert gain_status(Interval(0.0, low, high), "max") == upwards
    assert gain_status(Interval(0.0, low, high), "min") == downwards


def _evaluation(interval: Interval, *slices: SliceScore) -> Evaluation:
    return Evaluation(
        part="test",
        rows=500,
        units=500,
        confidence=0.95,
        metrics={"accuracy": interval, "rmse": interval},
        slices=slices,
        baselines={},
        gains={"dummy": {"accuracy": Interval(0.2, 0.1, 0.3), "rmse": Interval(0.2, 0.1, 0.3)}},
        curves=RegressionCurves((), (), ()),
        warnings=(),
    )


def _slice(number: int, rows: int, low: float, high: float) -> SliceScore:
    return SliceScore(f"slice {number}", "accuracy", rows, Interval(low, low, high), number)


GOOD = Interval(0.92, 0.91, 0.93)
TARGET = Metric(name="accuracy", target=0.9)


def test_a_linear_model_is_not_held_against_itself() -> None:
    known, metric = _evaluation(GOOD), Metric(name="accuracy", target="every_baseline")
    same = dict.fromkeys(("accuracy", "rmse"), Interval(0.0, 0.0, 0.0))
    itself = replace(known, gains={**known.gains, "linear": same})
    (clause,) = judge(metric, (), itself, is_linear=True).clauses
    assert (clause.name, clause.status) == ("accuracy minus baseline > 0", "met")
    # Trees that score like the linear baseline gain nothing on it.
    assert judge(metric, (), itself).status == "missed"
    other = {**same, "rmse": Interval(0.1, 0.0, 0.2)}
    another = replace(known, gains={**known.gains, "linear": other})
    assert len(judge(metric, (), another, is_linear=True).clauses) == 2


@pytest.mark.parametrize(
    ("gain", "of_baseline", "of_number", "of_dummy"),
    [
        (Interval(-0.2, -0.3, -0.1), "missed", "missed", "met"),
        (Interval(-0.2, -0.5, 0.1), "undecided", "met", "met"),
        (Interval(0.2, -0.1, 0.5), "met", "met", "met"),
        (Interval(0.0, 0.0, 0.0), "met", "met", "met"),
    ],
)
def test_no_verdict_is_met_while_a_baseline_is_better(
    gain: Interval, of_baseline: Status, of_number: Status, of_dummy: Status
) -> None:
    evaluation = _evaluation(GOOD)
    evaluation = replace(evaluation, gains={**evaluation.gains, "persistence": {"accuracy": gain}})
    verdict = judge(Metric(name="accuracy", target="baseline"), (), evaluation)
    assert verdict.status == of_baseline
    assert [one.against for one in verdict.clauses[1:]] == ["persistence"] * (gain.value < 0)
    assert judge(TARGET, (), evaluation).status == of_number
    assert judge(Metric(name="accuracy", target="dummy"), (), evaluation).status == of_dummy


def test_a_linear_model_of_another_penalty_may_differ_from_the_linear_baseline_by_chance() -> None:
    gains = {"linear": {"accuracy": Interval(-0.001, -0.01, 0.01)}}
    evaluation = _evaluation(GOOD)
    evaluation = replace(evaluation, gains={**evaluation.gains, **gains})
    metric = Metric(name="accuracy", target="baseline")
    assert judge(metric, (), evaluation, is_linear=True).status == "met"
    assert judge(metric, (), evaluation).status == "undecided"


def test_a_metric_that_constants_reach_is_not_held_against_them() -> None:
    gains = {"dummy": {"recall": Interval(-0.1, -0.2, -0.05)}}
    evaluation = replace(_evaluation(GOOD), metrics={"recall": GOOD}, gains=gains)
    assert judge(Metric(name="recall", target=0.9), (), evaluation).status == "met"


def test_a_baseline_that_the_run_does_not_have_decides_nothing() -> None:
    metric = Metric(name="accuracy", target="seasonal_naive")
    assert judge(metric, (), _evaluation(GOOD)).status == "undecided"


def test_a_target_is_a_clause_over_all_rows() -> None:
    verdict = judge(TARGET, (), _evaluation(GOOD))
    (clause,) = verdict.clauses
    assert (clause.name, clause.slice, clause.target) == ("accuracy >= 0.9", "all rows", 0.9)
    assert (verdict.status, clause.interval) == ("met", GOOD)


def test_without_a_target_the_difference_to_the_baseline_is_judged() -> None:
    better = judge(Metric(name="accuracy"), (), _evaluation(GOOD))
    assert better.clauses[0].name == "accuracy minus baseline > 0"
    assert better.clauses[0].interval == Interval(0.2, 0.1, 0.3)
    assert better.status == "met"
    worse = judge(Metric(name="rmse"), (), _evaluation(GOOD))
    assert (worse.clauses[0].name, worse.status) == ("rmse minus baseline < 0", "missed")


def test_the_default_asks_for_more_than_every_baseline() -> None:
    known = _evaluation(GOOD)
    linear = {"accuracy": Interval(-0.01, -0.02, 0.01), "rmse": Interval(-0.2, -0.3, -0.1)}
    evaluation = replace(known, gains={**known.gains, "linear": linear})
    verdict = judge(Metric(name="accuracy", target="every_baseline"), (), evaluation)
    assert [(one.name, one.status) for one in verdict.clauses] == [
        ("accuracy minus baseline > 0", "met"),
        ("accuracy minus linear baseline > 0", "undecided"),
    ]
    assert verdict.status == "undecided"
    (clause,) = judge(Metric(name="accuracy", target="dummy"), (), evaluation).clauses
    assert clause.status == "met"


def test_only_slices_with_a_floor_are_judged_each_by_its_own() -> None:
    slices = (Slice(column="a"), Slice(column="a", floor=0.8), Slice(column="a", floor=0.95))
    scores = [_slice(number, 100, 0.85, 0.9) for number in range(3)]
    verdict = judge(TARGET, slices, _evaluation(GOOD, *scores))
    assert [(one.name, one.status) for one in verdict.clauses[1:]] == [
        ("accuracy >= 0.8 on slice 1", "met"),
        ("accuracy >= 0.95 on slice 2", "missed"),
    ]
    assert verdict.status == "missed"


@pytest.mark.parametrize(("rows", "expected"), [(30, "met"), (29, "undecided")])
def test_a_slice_with_too_few_rows_is_undecided(rows: int, expected: Status) -> None:
    score = _slice(0, rows, 0.85, 0.9)
    verdict = judge(TARGET, (Slice(column="a", floor=0.8),), _evaluation(GOOD, score))
    assert verdict.clauses[1].status == expected
    assert verdict.status == expected


def test_one_missed_clause_is_graver_than_one_undecided() -> None:
    slices = (Slice(column="a", floor=0.88), Slice(column="b", floor=0.95))
    scores = (_slice(0, 100, 0.85, 0.9), _slice(1, 100, 0.85, 0.9))
    assert judge(TARGET, slices[:1], _evaluation(GOOD, *scores)).status == "undecided"
    assert judge(TARGET, slices, _evaluation(GOOD, *scores)).status == "missed"


@pytest.mark.parametrize("interval", [GOOD, UNKNOWN])
def test_a_verdict_goes_through_strict_json(interval: Interval) -> None:
    verdict = judge(TARGET, (), _evaluation(interval))
    assert Verdict.from_json(json.loads(to_json(verdict.to_json()))) == verdict
