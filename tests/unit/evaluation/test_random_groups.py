"""The bootstrap of groups is the bootstrap of their units, cheaper."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.contract.metric import METRICS, Metric
from trainwright.evaluation import intervals
from trainwright.evaluation.answers import Answers, answers_of
from trainwright.evaluation.intervals import Draws, Question, method_of, resample, row_weights
from trainwright.evaluation.random_groups import Groups
from trainwright.evaluation.ranking import OneAgainstRest, PrecisionAtRecall
from trainwright.evaluation.weighted import Sums, weigh

SECTION = Metric()


def _answers(task: str, rows: int, share: float = 0.3, classes: int = 2) -> Answers:
    generator = np.random.default_rng(5)
    if task == "regression":
        truth = generator.normal(3.0, 1.0, rows)
        return answers_of(truth, (truth + generator.normal(0, 0.5, rows))[:, None])
    if task == "generation":
        truth = generator.integers(50, 64, rows)
        return answers_of(truth, (truth * generator.gamma(4.0, 0.5, rows))[:, None])
    chances = np.r_[1 - share, np.full(classes - 1, share / (classes - 1))]
    truth = generator.choice(classes, rows, p=chances)
    # Rounded, so that some scores are equal.
    logits = np.round(generator.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[truth], 2)
    scores = np.exp(logits)
    return answers_of(truth, scores / scores.sum(axis=1, keepdims=True))


def _cases() -> list[tuple[str, int]]:
    return [
        (name, classes)
        for name, fact in METRICS.items()
        for classes in ((2, 3) if fact.task == "classification" and fact.classes == "any" else (2,))
    ]


@pytest.mark.parametrize(("name", "classes"), _cases())
def test_groups_have_the_interval_of_their_units(
    name: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = _answers(METRICS[name].task, 6000, classes=classes)
    question = Question(np.arange(6000), weigh(name, answers, SECTION))
    draws = Draws(np.arange(6000), 400, 0)
    alone = resample([question], draws)[0]
    monkeypatch.setattr(intervals, "MOST_UNITS", 1000)
    monkeypatch.setattr(intervals, "FEW_ROWS", 1000)
    grouped = resample([question], draws)[0]
    assert grouped.std() == pytest.approx(alone.std(), rel=0.15)
    assert grouped.mean() == pytest.approx(alone.mean(), abs=0.25 * alone.std())


@pytest.mark.parametrize(("name", "classes"), _cases())
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_groups_of_one_row_have_the_values_of_the_rows(
    name: str, classes: int, share: float
) -> None:
    answers = _answers(METRICS[name].task, 2500, share, classes)
    weighted = weigh(name, answers, SECTION)
    assert isinstance(weighted, Sums | OneAgainstRest | PrecisionAtRecall)
    rows = np.arange(2500)
    weights = next(row_weights(Draws(rows, 40, 0)))
    alone, grouped = weighted(weights), weighted.grouped(Groups(rows, 2500))(weights)
    # Sums, and rare positives of two classes, are the same; closed forms are near.
    exact = isinstance(weighted, Sums) or (share < 0.1 and classes == 2)
    np.testing.assert_allclose(grouped, alone, atol=1e-9 if exact else 0.35 * alone.std())


def test_groups_keep_units_together(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    units = np.repeat(np.arange(4000), 5)
    chance = np.repeat(generator.uniform(0.05, 0.95, 4000), 5)
    truth = np.repeat(generator.integers(0, 2, 4000), 5)
    answers = answers_of(truth, np.stack([1 - chance, chance], axis=1))
    question = Question(np.arange(len(units)), weigh("roc_auc", answers, SECTION))
    alone = resample([question], Draws(units, 300, 0))[0]
    monkeypatch.setattr(intervals, "MOST_UNITS", 1000)
    grouped = resample([question], Draws(units, 300, 0))[0]
    assert grouped.std() == pytest.approx(alone.std(), rel=0.15)


def test_the_method_is_named() -> None:
    assert method_of(10_000) == "bootstrap of units"
    assert method_of(10_001) == "bootstrap of 2000 random groups of units"
