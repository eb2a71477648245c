"""Greedy selection finds the weights of Caruana et al., and its score is not that of the rows that
it was selected on."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.contract.sections.metric import Metric
from trainwright.evaluation.candidates.compare_candidates import (
    ComparedRows,
    best_of,
    choose_simplest,
    compare_candidates,
)
from trainwright.evaluation.candidates.greedy_ensemble import (
    mean_scores,
    select_ensemble,
    select_greedily,
)
from trainwright.evaluation.intervals.bootstrap import Interval

RMSE = Metric(name="rmse", target="baseline", resamples=200)
AUC = Metric(name="roc_auc", target="baseline", resamples=200)


def numbers(rows: int = 400) -> ComparedRows:
    truth = np.random.default_rng(0).normal(size=rows)
    return ComparedRows(truth, np.arange(rows), 1)


def noisy(rows: ComparedRows, spread: float, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).normal(scale=spread, size=len(rows))
    return (rows.truth + draws)[:, None]


def by_hand(scores: dict[str, np.ndarray], truth: np.ndarray, rounds: int) -> dict[str, float]:
    """The algorithm as the paper describes it, without its speed."""

    def error(bag: list[str]) -> float:
        mean = np.mean([scores[name] for name in bag], axis=0)
        return float(np.sqrt(np.mean((mean[:, 0] - truth) ** 2)))

    bag = [min(scores, key=lambda name: error([name]))]
    best = list(bag)
    for _ in range(rounds - 1):
        bag = [*bag, min(scores, key=lambda name: error([*bag, name]))]
        best = list(bag) if error(bag) < error(best) else best
    return {name: best.count(name) / len(best) for name in scores if name in best}


def test_weights_are_those_of_the_paper() -> None:
    rows = numbers()
    scores = {f"m{at}": noisy(rows, 0.3 + 0.1 * at, at) for at in range(4)}
    found = select_greedily(scores, rows, RMSE, seed=0)
    wanted = by_hand(scores, rows.truth, 40)
    assert found == pytest.approx(wanted, abs=0.06)
    value = rows.value(mean_scores(scores, found), RMSE)
    assert value == pytest.approx(rows.value(mean_scores(scores, wanted), RMSE), rel=0.003)
    assert value < min(rows.value(one, RMSE) for one in scores.values())
    assert sum(found.values()) == pytest.approx(1)


def test_a_copy_gains_nothing_and_the_first_of_equals_is_kept() -> None:
    rows = numbers()
    good = noisy(rows, 0.2, 1)
    assert select_greedily({"a": good, "b": good}, rows, RMSE, seed=0) == {"a": 1.0}


def test_of_noise_the_cross_fitted_score_is_honest() -> None:
    """Thirty candidates that know nothing: the best mean of some looks better than chance on the
    rows that it was selected on, and is chance on others."""
    generator = np.random.default_rng(3)
    rows = ComparedRows(generator.integers(0, 2, 300), np.arange(300), 1)
    chances = generator.random((30, 300))
    scores = {f"m{at}": np.stack([1 - p, p], axis=1) for at, p in enumerate(chances)}
    found = select_ensemble(scores, rows, AUC, seed=0)
    assert found.value_on_selected > 0.6
    assert abs(rows.value(found.scores, AUC) - 0.5) < 0.07


def test_a_cross_fitted_score_never_rests_on_its_own_part() -> None:
    rows = ComparedRows(numbers(200).truth, np.arange(200), 1, np.arange(200) % 4)
    scores = {"a": noisy(rows, 0.3, 1), "b": noisy(rows, 0.3, 2)}
    found = select_ensemble(scores, rows, RMSE, seed=0)
    for fold in range(4):
        inside, outside = np.flatnonzero(rows.folds == fold), np.flatnonzero(rows.folds != fold)
        others = {name: one[outside] for name, one in scores.items()}
        weights = select_greedily(others, rows.take(outside), RMSE, seed=0)
        expected = mean_scores({name: scores[name][inside] for name in weights}, weights)
        np.testing.assert_array_equal(found.scores[inside], expected)


def test_gains_are_paired_with_the_best() -> None:
    rows = numbers()
    scores = {"dummy": np.zeros((400, 1)), "a": noisy(rows, 0.3, 1), "b": noisy(rows, 0.301, 1)}
    compared = compare_candidates(scores, rows, RMSE, seed=0)
    assert compared["a"].gain == Interval(0.0, 0.0, 0.0)
    assert compared["b"].gain.low < compared["b"].gain.value < 0.01
    assert compared["dummy"].gain.low > 0.3
    against = compare_candidates(scores, rows, RMSE, seed=0, against="b")
    assert against["a"].gain.value == -compared["b"].gain.value


def test_the_simplest_that_reaches_the_best_is_chosen() -> None:
    rows = numbers()
    scores = {"dummy": np.zeros((400, 1)), "a": noisy(rows, 0.31, 1), "b": noisy(rows, 0.3, 2)}
    compared = compare_candidates(scores, rows, RMSE, seed=0)
    assert choose_simplest(compared, ["dummy", "a", "b"], "min") == "a"
    assert choose_simplest(compared, ["b", "a", "dummy"], "min") == "b"
    few = ComparedRows(rows.truth[:3], rows.units[:3], 1)
    unclear = compare_candidates({n: s[:3] for n, s in scores.items()}, few, RMSE, seed=0)
    names = ["dummy", "a", "b"]
    values = {name: unclear[name].score.value for name in names}
    assert choose_simplest(unclear, names, "min") == best_of(values, "min")
    assert best_of({"a": float("nan"), "b": 0.1}, "max") == "b"
