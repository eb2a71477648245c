from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.metric import Metric, Slice
from trainwright.core.errors import Mistake
from trainwright.core.files import to_json
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.number_target import Numbers
from trainwright.data.columns.target import Target
from trainwright.evaluation.curves.plot_data import (
    ClassificationCurves,
    RegressionCurves,
    _thin,
    draw_curves,
)
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.evaluation_warnings import LinearBaseline, Size, find_warnings
from trainwright.evaluation.intervals.bootstrap import Interval
from trainwright.evaluation.metrics.metric_values import metric_names
from trainwright.evaluation.metrics.predictions import answers_of

METRIC = Metric(name="roc_auc", resamples=200)
TWO = Classes("label", ("no", "yes"), positive=1)


def part(target: np.ndarray, units: np.ndarray | None = None, **columns: list[object]) -> Part:
    count = len(target)
    inputs = TableInputs(np.zeros((count, 0), np.float32), np.zeros((count, 0), np.int64))
    rows = np.arange(count)
    frame = pl.DataFrame({"label": target.tolist(), **columns})
    return Part("test", frame, inputs, target, rows, rows if units is None else units)


def scored_classes(classes: int, count: int = 400, seed: int = 0) -> Scored:
    generator = np.random.default_rng(seed)
    target = generator.integers(0, classes, count)
    raw = np.exp(generator.normal(size=(count, classes)) + 1.5 * np.eye(classes)[target])
    names = tuple(f"class {code}" for code in range(classes))
    dummy = np.full((count, classes), 1 / classes)
    kind = ["a", "b"] * (count // 2)
    return Scored(
        part(target, kind=kind),
        Classes("label", names, positive=1 if classes == 2 else -1),
        raw / raw.sum(axis=1, keepdims=True),
        {"dummy": dummy},
    )


def scored_numbers(count: int = 400) -> Scored:
    generator = np.random.default_rng(0)
    target = generator.normal(size=count)
    scores = (target + 0.5 * generator.normal(size=count))[:, None]
    numbers: Target = Numbers("label", 0.0, 1.0)
    return Scored(part(target), numbers, scores, {"dummy": np.zeros((count, 1))})


CASES: Mapping[str, Scored] = {
    "two": scored_classes(2),
    "four": scored_classes(4),
    "numbers": scored_numbers(),
}


@pytest.mark.parametrize("case", CASES)
def test_every_metric_has_a_value_inside_its_interval(case: str) -> None:
    scored = CASES[case]
    evaluation = evaluate(scored, METRIC, (), seed=0)
    assert tuple(evaluation.metrics) == metric_names(scored.scores.shape[1])
    for intervals in (evaluation.metrics, evaluation.gains["dummy"]):
        for name, interval in intervals.items():
            assert interval.low <= interval.value <= interval.high, name
            assert interval.low < interval.high, name


@pytest.mark.parametrize("case", CASES)
def test_it_goes_through_strict_json(case: str) -> None:
    evaluation = evaluate(CASES[case], METRIC, (), seed=0)
    assert Evaluation.from_json(json.loads(to_json(evaluation.to_json()))) == evaluation


def test_what_is_not_defined_never_becomes_nan_in_json() -> None:
    target = np.zeros(20, np.int64)
    scored = Scored(part(target), TWO, np.full((20, 2), 0.5), {"dummy": np.full((20, 2), 0.5)})
    evaluation = evaluate(scored, METRIC, (Slice(where="label = 5", metric="accuracy"),), seed=0)
    text = to_json(evaluation.to_json())
    assert "NaN" not in text
    assert "Infinity" not in text
    assert evaluation.to_json()["metrics"]["roc_auc"]["value"] is None
    assert evaluation.slices[0].rows == 0
    assert any(warning.startswith("no interval for") for warning in evaluation.warnings)


def test_the_same_seed_measures_the_same() -> None:
    first = evaluate(CASES["two"], METRIC, (), seed=3)
    assert first == evaluate(CASES["two"], METRIC, (), seed=3)
    assert first != evaluate(CASES["two"], METRIC, (), seed=4)


def test_a_difference_is_paired_and_so_narrower_than_its_parts() -> None:
    scored = CASES["two"]
    near = np.clip(scored.scores + np.array([[-0.01, 0.01]]), 1e-6, 1)
    evaluation = evaluate(replace(scored, baselines={"dummy": near}), METRIC, (), seed=0)
    gain, model = evaluation.gains["dummy"]["log_loss"], evaluation.metrics["log_loss"]
    assert gain.high - gain.low < 0.2 * (model.high - model.low)


def test_slices_have_their_own_metric_count_and_interval() -> None:
    slices = (Slice(column="kind"), Slice(where="label = 1", name="yes", metric="accuracy"))
    evaluation = evaluate(CASES["two"], METRIC, slices, seed=0)
    assert [(one.name, one.metric, one.number) for one in evaluation.slices] == [
        ("kind=a", "roc_auc", 0),
        ("kind=b", "roc_auc", 0),
        ("yes", "accuracy", 1),
    ]
    assert [one.rows for one in evaluation.slices[:2]] == [200, 200]
    whole = evaluation.metrics["roc_auc"]
    for one in evaluation.slices[:2]:
        assert one.interval.high - one.interval.low > whole.high - whole.low


def test_a_slice_of_all_rows_is_the_whole() -> None:
    evaluation = evaluate(CASES["two"], METRIC, (Slice(where="label >= 0"),), seed=0)
    assert evaluation.slices[0].interval == evaluation.metrics["roc_auc"]


def test_a_slice_that_cannot_be_computed_is_a_mistake() -> None:
    with pytest.raises(Mistake, match="no column"):
        evaluate(CASES["two"], METRIC, (Slice(column="none"),), seed=0)


def test_rows_of_few_units_are_warned_of_and_have_wider_intervals() -> None:
    scored = CASES["two"]
    grouped = replace(scored, part=replace(scored.part, units=np.arange(400) // 20))
    evaluation = evaluate(grouped, METRIC, (), seed=0)
    assert evaluation.units == 20
    assert any("only 20 independent units" in warning for warning in evaluation.warnings)


def test_few_rows_are_warned_of() -> None:
    evaluation = evaluate(scored_classes(2, count=60), METRIC, (), seed=0)
    assert any("only 60 rows" in warning for warning in evaluation.warnings)


def test_a_near_perfect_linear_baseline_names_the_column() -> None:
    scored = CASES["two"]
    truth = np.eye(2)[scored.part.target]
    leaking = replace(
        scored,
        baselines={**scored.baselines, "linear": truth},
        shares={"age": 0.1, "outcome": 0.9},
    )
    warnings = evaluate(leaking, METRIC, (), seed=0).warnings
    assert warnings[0].startswith("leakage?")
    assert "'outcome', which contributes 90%" in warnings[0]
    honest = evaluate(replace(scored, shares={"age": 1.0}), METRIC, (), seed=0).warnings
    assert not any("leakage" in warning for warning in honest)


@pytest.mark.parametrize("count", [60, 400])
def test_a_linear_baseline_that_is_better_is_warned_of(count: int) -> None:
    scored = scored_classes(2, count=count)
    truth = np.eye(2)[scored.part.target] * 0.5 + 0.25
    beaten = replace(scored, baselines={**scored.baselines, "linear": truth})
    warnings = evaluate(beaten, METRIC, (), seed=0).warnings
    assert any("the linear baseline is better than the model" in text for text in warnings)
    equal = replace(scored, baselines={**scored.baselines, "linear": scored.scores})
    better = replace(scored, scores=truth)
    for one in (equal, better):
        warnings = evaluate(one, METRIC, (), seed=0).warnings
        assert not any("the linear baseline is better" in text for text in warnings)


@pytest.mark.parametrize(("target", "warned"), [(0.4, True), (0.999, False)])
def test_a_target_that_the_dummy_reaches_is_warned_of(target: float, *, warned: bool) -> None:
    found = evaluate(
        scored_classes(2), Metric(name="accuracy", target=target, resamples=100), (), 0
    )
    assert any("the target proves nothing" in one for one in found.warnings) is warned


def test_a_perfect_order_of_two_rows_is_no_leak() -> None:
    scored = scored_classes(2, count=2)
    two = replace(scored, part=replace(scored.part, target=np.array([0, 1])))
    perfect = replace(two, baselines={**two.baselines, "linear": np.eye(2)}, shares={"age": 1.0})
    evaluation = evaluate(perfect, METRIC, (), seed=0)
    assert evaluation.baselines["linear"]["roc_auc"].value == 1
    assert not any("leakage" in warning for warning in evaluation.warnings)


def test_the_curves_of_classes_are_thin_and_count_every_row() -> None:
    curves = evaluate(scored_classes(2, count=4000), METRIC, (), seed=0).curves
    assert isinstance(curves, ClassificationCurves)
    assert sum(sum(row) for row in curves.confusion) == 4000
    assert sum(one.rows for one in curves.calibration) == 4000
    (curve,) = curves.curves
    assert curve.label == "class 1"
    assert len(curve.roc) <= 200
    assert (curve.roc[0], curve.roc[-1]) == ((0.0, 0.0), (1.0, 1.0))


def test_thinning_a_roc_curve_keeps_its_area() -> None:
    scored = scored_classes(2, count=4000)
    evaluation = evaluate(scored, METRIC, (), seed=0)
    assert isinstance(evaluation.curves, ClassificationCurves)
    x, y = np.array(evaluation.curves.curves[0].roc).T
    value = evaluation.metrics["roc_auc"].value
    assert float(np.trapezoid(y, x)) == pytest.approx(value, abs=0.005)


def test_the_curves_of_numbers_count_every_row() -> None:
    curves = evaluate(CASES["numbers"], METRIC, (), seed=0).curves
    assert isinstance(curves, RegressionCurves)
    assert sum(curves.residual_counts) == 400
    assert len(curves.residual_edges) == len(curves.residual_counts) + 1
    assert len(curves.sample) == 400


def test_a_perfect_model_on_few_positives_is_not_sure_to_beat_the_baseline() -> None:
    target = np.zeros(200, np.int64)
    target[:5] = 1
    perfect, constant = np.eye(2)[target], np.full((200, 2), 0.5)
    evaluation = evaluate(Scored(part(target), TWO, perfect, {"dummy": constant}), METRIC, (), 0)
    assert evaluation.metrics["roc_auc"].low == pytest.approx(0.025 ** (1 / 5))
    assert evaluation.gains["dummy"]["roc_auc"].low == pytest.approx(0.025 ** (1 / 5) - 0.5)
    assert any("of the resamples lacked a class" in one for one in evaluation.warnings)


def test_four_positives_are_too_few_for_an_interval() -> None:
    target = np.zeros(200, np.int64)
    target[:4] = 1
    scores = np.full((200, 2), 0.5)
    evaluation = evaluate(Scored(part(target), TWO, scores, {"dummy": scores}), METRIC, (), 0)
    assert not evaluation.metrics["recall"].given
    assert not evaluation.gains["dummy"]["recall"].given
    assert evaluation.metrics["accuracy"].given


@pytest.mark.parametrize(
    ("columns", "said"), [(0, "the target leaks into the inputs"), (4, "columns; 'c0'")]
)
def test_no_column_is_accused_that_does_not_carry_the_answer(columns: int, said: str) -> None:
    """Classes of images, wines and tumours are this easy to tell apart."""
    near = Interval(0.998, 0.996, 0.999)
    shares = {f"c{at}": 1 / columns for at in range(columns)}
    linear = LinearBaseline({"roc_auc": near}, shares)
    (found,) = find_warnings(Size(500, 500), {}, linear)
    assert found.startswith("leakage? the linear baseline alone reaches roc_auc 0.9980: easy")
    assert said in found
    assert "exclude" not in found


@pytest.mark.parametrize(("columns", "suspects"), [(1, 1), (200, 0)])
def test_an_answer_spread_over_hundreds_of_words_is_no_leak(columns: int, suspects: int) -> None:
    near = Interval(0.998, 0.996, 0.999)
    shares = {f"text (word {at})": 1 / columns for at in range(columns)}
    linear = LinearBaseline({"roc_auc": near}, shares)
    found = find_warnings(Size(500, 500), {}, linear)
    assert len([one for one in found if one.startswith("leakage?")]) == suspects


@pytest.mark.parametrize("rows", [3, 200, 5000])
@pytest.mark.parametrize("digits", [1, 12])
def test_curves_have_the_points_of_scikit_learn(rows: int, digits: int) -> None:
    from sklearn.metrics import precision_recall_curve, roc_curve

    generator = np.random.default_rng(rows)
    truth = (generator.random(rows) < 0.4).astype(np.int64)
    truth[:2] = [0, 1]
    chance = np.round((generator.random(rows) + truth) / 2, digits)
    answers = answers_of(truth, np.stack([1 - chance, chance], axis=1))
    drawn = draw_curves(answers, Classes("y", ("no", "yes"), 1))
    assert isinstance(drawn, ClassificationCurves)
    (curve,) = drawn.curves
    false_rate, true_rate, _ = roc_curve(truth, chance)
    precision, recall, _ = precision_recall_curve(truth, chance)
    assert curve.roc == _thin(false_rate, true_rate)
    assert curve.precision == _thin(recall, precision)
