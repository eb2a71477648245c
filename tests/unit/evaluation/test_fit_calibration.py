"""Calibration against known distortions and other implementations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.calibration.fit_calibration import fit_calibration, mean_log_loss
from trainwright.evaluation.calibration.fit_threshold import CannotCalibrate
from trainwright.predictor.calibration import NOT_CALIBRATED, Calibration, Knots, Method, logit

METHODS: tuple[Method, ...] = ("temperature", "platt", "isotonic")


def rows(classes: int, factor: float, count: int = 3000) -> tuple[Floats, Integers]:
    """Probabilities whose logits are `factor` times the true ones, and classes drawn from these."""
    draws = np.random.default_rng(classes)
    logits = draws.normal(0, 1.5, (count, classes))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.array([draws.choice(classes, p=each) for each in true])
    said = np.exp(factor * logits)
    return said / said.sum(axis=1, keepdims=True), truth


def fitted(scores: Floats, truth: Integers, method: Method) -> Calibration:
    return fit_calibration(scores, truth, np.arange(len(truth)), method, 0)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_temperature_of_a_distortion_is_found(classes: int) -> None:
    scores, truth = rows(classes, 3.0)
    assert fitted(scores, truth, "temperature").temperature == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("count", [20, 40, 400])
@pytest.mark.parametrize("classes", [2, 4])
def test_rows_that_are_all_right_do_not_make_a_model_certain(classes: int, count: int) -> None:
    """Two rows more may be wrong: of so many rows the model is at most so sure."""
    truth = np.arange(count) % classes
    scores = np.full((count, classes), 0.04 / (classes - 1))
    scores[np.arange(count), truth] = 0.96
    sure = fitted(scores, truth, "temperature").apply(scores).max()
    assert sure == pytest.approx((count + 2) / (count + 4), abs=0.02)
    new = np.where(np.arange(count) % 16 == 0, (truth + 1) % classes, truth)
    found = fit_calibration(scores, truth, np.arange(count), "auto", 0)
    assert mean_log_loss(found.apply(scores), new) < mean_log_loss(scores, new) + 0.15


@pytest.mark.parametrize("factor", [40.0, 0.025])
def test_a_temperature_has_bounds(factor: float) -> None:
    scores, truth = rows(2, factor)
    assert 0.1 <= fitted(scores, truth, "temperature").temperature <= 10


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_mends_other_rows(method: Method, classes: int) -> None:
    scores, truth = rows(classes, 3.0)
    half = len(truth) // 2
    calibrated = fitted(scores[:half], truth[:half], method).apply(scores[half:])
    np.testing.assert_allclose(calibrated.sum(axis=1), 1)
    assert calibrated.min() > 0
    before, after = (mean_log_loss(each, truth[half:]) for each in (scores[half:], calibrated))
    assert after < before - 0.1


def test_platt_is_that_of_scikit_learn() -> None:
    scores, truth = rows(2, 2.0, 400)
    odds = logit(scores[:, 1])
    theirs = _SigmoidCalibration().fit(odds, truth)
    ((slope, offset),) = fitted(scores, truth, "platt").lines
    assert slope == pytest.approx(-theirs.a_, rel=1e-3)
    assert offset == pytest.approx(-theirs.b_, abs=1e-3)
    ours = fitted(scores, truth, "platt").apply(scores)[:, 1]
    np.testing.assert_allclose(ours, theirs.predict(odds), atol=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_platt_does_not_reverse_a_ranking(classes: int) -> None:
    scores, truth = rows(classes, -1.0, 400)
    found = fitted(scores, truth, "platt")
    assert all(slope == 0 for slope, _ in found.lines)
    count = float((truth == 1).sum())
    calibrated = found.apply(scores)
    assert np.ptp(calibrated, axis=0).max() < 1e-12
    assert calibrated[0, 1] == pytest.approx(count / 400, abs=0.01)


def test_isotonic_is_that_of_scikit_learn() -> None:
    scores, truth = rows(2, 2.0, 400)
    margin = 1 / 402
    theirs = IsotonicRegression(y_min=margin, y_max=1 - margin).fit(scores[:, 1], truth)
    ours = fitted(scores, truth, "isotonic").apply(scores)[:, 1]
    np.testing.assert_allclose(ours, theirs.predict(scores[:, 1]))


def test_auto_leaves_what_is_calibrated() -> None:
    scores, truth = rows(2, 1.0)
    found = fit_calibration(scores, truth, np.arange(len(truth)), "auto", 0)
    losses = found.tried
    assert set(losses) == {"none", "temperature", "platt", "isotonic"}
    assert losses[found.method] == min(losses.values())
    assert losses[found.method] > losses["none"] - 0.002


def test_auto_mends_what_is_not_and_spares_few_rows_the_isotonic() -> None:
    scores, truth = rows(2, 4.0, 500)
    found = fit_calibration(scores, truth, np.arange(len(truth)), "auto", 0)
    assert found.method in ("temperature", "platt")
    assert set(found.tried) == {"none", "temperature", "platt"}
    assert found.rows == 500


def test_the_folds_of_auto_keep_units_together() -> None:
    """Rows that are repeated under one unit say no more than once: the folds see through them."""
    scores, truth = rows(2, 1.0, 40)
    many, codes, units = (np.repeat(each, 50, axis=0) for each in (scores, truth, np.arange(40)))
    apart = fit_calibration(many, codes, np.arange(len(codes)), "auto", 0).tried["isotonic"]
    together = fit_calibration(many, codes, units, "auto", 0).tried["isotonic"]
    assert together > apart + 0.1


def test_a_class_without_rows_is_said() -> None:
    scores, _ = rows(3, 1.0, 50)
    with pytest.raises(CannotCalibrate, match="1 of the classes"):
        fitted(scores, np.zeros(50, np.int64) + np.arange(50) % 2, "platt")


def test_certain_scores_stay_finite() -> None:
    scores = np.array([[0.0, 1.0], [1.0, 0.0]] * 50)
    truth = np.array([1, 0] * 49 + [0, 1])
    for method in METHODS:
        found = fitted(scores, truth, method)
        found.check(2)
        assert np.isfinite(found.apply(scores)).all()
        assert found.apply(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_read_back_maps_to_the_same_bits(method: Method, classes: int) -> None:
    scores, truth = rows(classes, 2.0, 300)
    found = fitted(scores, truth, method)
    again = Calibration.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False)))
    again.check(classes)
    np.testing.assert_array_equal(found.apply(scores), again.apply(scores))


def test_without_a_calibration_scores_are_the_same_object() -> None:
    scores, _ = rows(2, 1.0, 10)
    assert NOT_CALIBRATED.apply(scores) is scores


@pytest.mark.parametrize(
    ("broken", "outputs"),
    [
        (Calibration("temperature", 0.0), 2),
        (Calibration("temperature", float("nan")), 2),
        (Calibration("temperature", 2.0), 1),
        (Calibration("platt"), 2),
        (Calibration("platt", lines=((1.0, 0.0),)), 3),
        (Calibration("platt", lines=((float("inf"), 0.0),)), 2),
        (Calibration("isotonic"), 2),
        (Calibration("isotonic", knots=(Knots((0.5, 0.1), (0.2, 0.3)),)), 2),
        (Calibration("isotonic", knots=(Knots((0.1, 0.5), (0.3, 0.2)),)), 2),
        (Calibration("isotonic", knots=(Knots((0.1, 0.5), (0.0, 0.2)),)), 2),
        (Calibration("isotonic", knots=(Knots((0.1,), (0.3, 0.2)),)), 2),
        (Calibration(threshold=0.0), 2),
        (Calibration(threshold=float("nan")), 2),
        (Calibration(threshold=0.3), 3),
        (Calibration("voodoo"), 2),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_an_impossible_map_is_refused(broken: Calibration, outputs: int) -> None:
    with pytest.raises(ValueError, match="calibration"):
        broken.check(outputs)
