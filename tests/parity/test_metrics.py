"""Metrics over weights against scikit-learn on the rows repeated as often as they were drawn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as theirs

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.evaluation.metrics.metric_values import POINTS, measure, metric_names
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import WEIGHTED, weigh

SECTION = Metric(name="roc_auc", recall=0.8, quantile=0.3)


def _classes(classes: int, count: int, seed: int, ties: bool) -> Answers:
    generator = np.random.default_rng(seed)
    truth = generator.integers(0, classes, count)
    raw = generator.normal(size=(count, classes)) + 1.2 * np.eye(classes)[truth]
    if ties:
        raw = np.round(raw)
    scores = np.exp(raw)
    return answers_of(truth, scores / scores.sum(axis=1, keepdims=True), positive=0)


def _numbers(count: int, seed: int, offset: float) -> Answers:
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=count) + offset
    return answers_of(truth, (truth + generator.normal(size=count))[:, None])


def _cases() -> list[tuple[str, Answers]]:
    cases = []
    for classes in (2, 3, 7):
        for ties in (False, True):
            answers = _classes(classes, 150, classes, ties)
            label = f"{classes}-classes{'-ties' if ties else ''}"
            cases += [(f"{name}-{label}", answers) for name in metric_names(classes)]
    for offset in (0.0, 1e5):
        answers = _numbers(150, 5, offset)
        cases += [(f"{name}-numbers-{offset:g}", answers) for name in metric_names(1)]
    return cases


CASES = _cases()


@pytest.mark.parametrize(("case", "answers"), CASES, ids=[name for name, _ in CASES])
def test_weights_equal_physically_drawn_rows(case: str, answers: Answers) -> None:
    name = case.split("-")[0]
    generator = np.random.default_rng(11)
    drawn = generator.integers(0, len(answers), (20, len(answers)))
    # Few rows as well: ends of curves, absent classes, thresholds of weight 0.
    drawn[5:] = drawn[5:] % 9
    weights = np.stack([np.bincount(rows, minlength=len(answers)) for rows in drawn]).astype(float)
    ours = weigh(name, answers, SECTION)(weights)
    by_rows = [measure(name, answers.take(rows), SECTION) for rows in drawn]
    if name in ("roc_auc", "average_precision") and answers.classes > 2:
        whole = set(np.unique(answers.truth))
        lacking = [set(np.unique(answers.truth[rows])) != whole for rows in drawn]
        # A mean over other classes than the value's own is another metric: left out.
        assert bool(np.isnan(ours[lacking]).all())
        by_rows = [np.nan if left_out else v for left_out, v in zip(lacking, by_rows, strict=True)]
    np.testing.assert_allclose(ours, by_rows, rtol=1e-9, atol=1e-9)
    assert not np.isnan(ours[:5]).any()


@pytest.mark.parametrize(("case", "answers"), CASES, ids=[name for name, _ in CASES])
def test_the_value_is_scikit_learns(case: str, answers: Answers) -> None:
    name = case.split("-")[0]
    truth, scores, chosen = answers.truth, answers.scores, answers.scores.argmax(axis=1)
    positive, chance = truth == 0, scores[:, 0]
    two = answers.classes == 2
    expected = {
        "accuracy": lambda: theirs.accuracy_score(truth, chosen),
        "balanced_accuracy": lambda: theirs.balanced_accuracy_score(truth, chosen),
        "f1": lambda: theirs.f1_score(truth, chosen, pos_label=0),
        "f1_macro": lambda: theirs.f1_score(truth, chosen, average="macro"),
        "f1_weighted": lambda: theirs.f1_score(truth, chosen, average="weighted"),
        "precision": lambda: theirs.precision_score(truth, chosen, pos_label=0),
        "recall": lambda: theirs.recall_score(truth, chosen, pos_label=0),
        "precision_at_recall": lambda: _precision_by_hand(positive, chance, 0.8),
        "roc_auc": lambda: (
            theirs.roc_auc_score(positive, chance)
            if two
            else theirs.roc_auc_score(truth, scores, multi_class="ovr", average="macro")
        ),
        "average_precision": lambda: (
            theirs.average_precision_score(positive, chance)
            if two
            else theirs.average_precision_score(truth, scores, average="macro")
        ),
        "log_loss": lambda: theirs.log_loss(truth, scores),
        "brier": lambda: (
            theirs.brier_score_loss(truth, chance, pos_label=0)
            if two
            else theirs.brier_score_loss(truth, scores)
        ),
        "calibration_error": lambda: _calibration_by_hand(answers),
        "mae": lambda: theirs.mean_absolute_error(truth, chance),
        "rmse": lambda: theirs.root_mean_squared_error(truth, chance),
        "r2": lambda: theirs.r2_score(truth, chance),
        "mape": lambda: theirs.mean_absolute_percentage_error(truth, chance),
        "pinball": lambda: theirs.mean_pinball_loss(truth, chance, alpha=0.3),
    }
    assert measure(name, answers, SECTION) == pytest.approx(expected[name](), abs=1e-12)


def _precision_by_hand(positive: np.ndarray, chance: np.ndarray, recall: float) -> float:
    best = 0.0
    for threshold in np.unique(chance):
        chosen = chance >= threshold
        if (positive & chosen).sum() / positive.sum() >= recall:
            best = max(best, float((positive & chosen).sum() / chosen.sum()))
    return best


def _calibration_by_hand(answers: Answers) -> float:
    if answers.classes == 2:
        confidence, hit = answers.scores[:, 0], answers.truth == 0
    else:
        confidence = answers.scores.max(axis=1)
        hit = answers.scores.argmax(axis=1) == answers.truth
    total = 0.0
    for m in range(15):
        inside = (confidence > m / 15) & (confidence <= (m + 1) / 15)
        if inside.any():
            total += inside.mean() * abs(hit[inside].mean() - confidence[inside].mean())
    return float(total)


def test_every_metric_of_the_contract_is_computed_both_ways() -> None:
    of_labels = {name for name, fact in METRICS.items() if fact.task == "multilabel"}
    assert set(POINTS) == set(WEIGHTED) == set(METRICS) - of_labels
    truth, scores = np.array([[0, 1], [1, 1]]), np.array([[0.2, 0.4], [0.7, 0.6]])
    labels = answers_of(truth, scores)
    for name in of_labels:
        weighted = weigh(name, labels, Metric())(np.ones((1, 2)))
        assert weighted == pytest.approx(measure(name, labels, Metric()))
