"""A second level: its weights against an exact solver and against all others, its honest score."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.metrics import log_loss

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.candidates.compare_candidates import ComparedRows
from trainwright.evaluation.candidates.greedy_ensemble import select_ensemble
from trainwright.evaluation.candidates.stacking import fit_second_level, stack_candidates
from trainwright.predictor.ensemble_scorer import SecondLevel

RMSE, LOSS, AUC = (Metric(name=name, target=0.5) for name in ("rmse", "log_loss", "roc_auc"))
PRIOR_VARIANCE = 0.09


def numbers(rows: int = 300) -> tuple[ComparedRows, dict[str, Floats]]:
    draws = np.random.default_rng(0)
    truth = 50 + 5 * draws.normal(size=rows)
    noise = {"a": 2.0, "b": 3.0, "c": 9.0}
    scores = {name: (truth + draws.normal(0, one, rows))[:, None] for name, one in noise.items()}
    scores["half"] = 0.5 * scores["b"] + draws.normal(0, 0.5, (rows, 1))
    return ComparedRows(truth, np.arange(rows), -1), scores


def classes(count: int, rows: int = 600) -> tuple[ComparedRows, dict[str, Floats]]:
    draws = np.random.default_rng(count)
    logits = draws.normal(0, 1.5, (rows, count))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.array([draws.choice(count, p=row) for row in chances], np.int64)
    scores = {}
    for name, slope, noise in (("plain", 1.0, 0.8), ("too_sure", 4.0, 0.4), ("noise", 0.0, 1.0)):
        moved = slope * (logits + noise * draws.normal(size=logits.shape))
        moved = moved if slope else draws.normal(size=logits.shape)
        scores[name] = np.exp(moved) / np.exp(moved).sum(axis=1, keepdims=True)
    return ComparedRows(truth, np.arange(rows), 1), scores


def test_weights_of_numbers_are_those_of_an_exact_solver() -> None:
    rows, scores = numbers()
    prior = {"a": 0.75, "b": 0.25}
    found = fit_second_level(scores, rows, "identity", prior, 0)
    mean, spread = rows.truth.mean(), rows.truth.std()
    inputs = (np.hstack(list(scores.values())) - mean) / spread
    truth = (rows.truth - mean) / spread
    noise = ((inputs - truth[:, None]) ** 2).mean(axis=0).min()
    pull = np.sqrt(noise / PRIOR_VARIANCE)
    # An intercept of either sign is the difference of two columns.
    design = np.hstack([inputs, np.ones((300, 1)), -np.ones((300, 1))])
    centre = np.array([0.75, 0.25, 0, 0])
    rests = np.hstack([pull * np.eye(4), np.zeros((4, 2))])
    rest = np.array([[0, 0, 0, 0, pull, -pull]])
    wanted, _ = nnls(
        np.vstack([design, rests, rest]), np.concatenate([truth, pull * centre, np.zeros(1)])
    )
    weights = [found.weights.get(name, 0.0) for name in scores]
    np.testing.assert_allclose(weights, wanted[:4], atol=1e-4)
    assert sum(weights) != pytest.approx(1, abs=0.01)  # "half" counts by its scale
    intercept = mean * (1 - wanted[:4].sum()) + spread * (wanted[4] - wanted[5])
    assert found.intercept[0] == pytest.approx(intercept, abs=0.01)


@pytest.mark.parametrize("count", [2, 4])
def test_no_other_weights_of_classes_have_a_higher_posterior(count: int) -> None:
    rows, scores = classes(count)
    prior = {"plain": 1.0}
    found = fit_second_level(scores, rows, "softmax", prior, 0)

    def loss(weights: Floats, intercept: Floats) -> float:
        level = SecondLevel("softmax", tuple(intercept), dict(zip(scores, weights, strict=True)))
        chances = level.combine(scores)
        away = weights - np.array([prior.get(name, 0.0) for name in scores])
        own = float((away**2).sum() + (intercept**2).sum()) / (2 * PRIOR_VARIANCE)
        return log_loss(rows.truth, chances, labels=range(count)) * len(rows) + own

    weights = np.array([found.weights.get(name, 0.0) for name in scores])
    intercept = np.array(found.intercept)
    least = loss(weights, intercept)
    draws = np.random.default_rng(1)
    for size in (0.3, 0.03):
        for _ in range(40):
            moved = np.maximum(weights + size * draws.normal(size=3), 0)
            assert loss(moved, intercept + size * draws.normal(size=count)) >= least - 1e-3
    assert found.weights["too_sure"] < 0.5
    assert found.weights.get("noise", 0.0) < 0.1


def test_it_mends_what_a_mean_cannot() -> None:
    rows, scores = classes(2, 2000)
    selected = select_ensemble(scores, rows, LOSS, 0)
    stacked = stack_candidates(scores, rows, LOSS, "softmax", selected, 0)
    assert rows.value(stacked.scores, LOSS) < rows.value(selected.scores, LOSS) - 0.005
    rows, scores = numbers(2000)
    selected = select_ensemble(scores, rows, RMSE, 0)
    stacked = stack_candidates(scores, rows, RMSE, "identity", selected, 0)
    assert rows.value(stacked.scores, RMSE) < rows.value(selected.scores, RMSE)


def test_rates_stay_above_zero() -> None:
    draws = np.random.default_rng(0)
    rates = np.exp(draws.normal(0.5, 1, 500))
    rows = ComparedRows(draws.poisson(rates).astype(float), np.arange(500), -1)
    scores = {"good": (rates * 1.5)[:, None], "flat": np.full((500, 1), 2.0)}
    level = fit_second_level(scores, rows, "log", {"good": 1.0}, 0)
    found = level.combine(scores)
    assert found.min() > 0
    assert found.sum() == pytest.approx(rows.truth.sum(), rel=0.05)


def test_of_noise_the_cross_fitted_score_is_honest() -> None:
    draws = np.random.default_rng(3)
    rows = ComparedRows(draws.integers(0, 2, 300), np.arange(300), 1)
    scores = {
        f"m{at}": np.stack([1 - p, p], axis=1) for at, p in enumerate(draws.random((30, 300)))
    }
    selected = select_ensemble(scores, rows, AUC, 0)
    found = stack_candidates(scores, rows, AUC, "softmax", selected, 0)
    assert found.value_on_fitted > 0.6
    assert abs(rows.value(found.scores, AUC) - 0.5) < 0.07


def test_a_cross_fitted_score_never_rests_on_its_own_part() -> None:
    rows, scores = classes(2, 200)
    rows = ComparedRows(rows.truth, rows.units, 1, np.arange(200) % 4)
    selected = select_ensemble(scores, rows, LOSS, 0)
    found = stack_candidates(scores, rows, LOSS, "softmax", selected, 0)
    other = ComparedRows(
        np.where(rows.folds == 2, 1 - rows.truth, rows.truth), rows.units, 1, rows.folds
    )
    again = stack_candidates(
        scores, other, LOSS, "softmax", select_ensemble(scores, other, LOSS, 0), 0
    )
    inside = rows.folds == 2
    np.testing.assert_array_equal(found.scores[inside], again.scores[inside])
    assert not np.array_equal(found.scores[~inside], again.scores[~inside])
