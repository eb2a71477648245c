"""The bootstrap of groups is the bootstrap of their units, cheaper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.levels import Levels
from trainwright.evaluation.intervals import bootstrap
from trainwright.evaluation.intervals.bootstrap import (
    Question,
    Resampling,
    interval_of,
    method_of,
    resample,
    row_weights,
    share_interval,
)
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics import metric_values, predictions
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import (
    Answers,
    GroupSums,
    RowGroups,
    answers_of,
    weigh_groups,
)
from trainwright.evaluation.metrics.ranking import OneAgainstRest, PrecisionAtRecall, Ranked
from trainwright.evaluation.metrics.weighted_metrics import BinSums, Sums, weigh

SECTION = Metric()


def _answers(task: str, rows: int, share: float = 0.3, classes: int = 2) -> Answers:
    generator = np.random.default_rng(5)
    if task in ("regression", "forecasting"):
        # Far enough above 0 that every prediction is a rate.
        truth = generator.normal(9.0, 1.0, rows)
        guess = (truth + generator.normal(0, 0.5, rows))[:, None]
        return answers_of(
            truth, guess, levels=Levels(error_scale=generator.integers(0, 3, rows) / 2)
        )
    if task == "generation":
        truth = generator.integers(50, 64, rows)
        nats = (truth * generator.gamma(4.0, 0.5, rows))[:, None]
        return answers_of(truth, nats, levels=Levels(text_bytes=3.0 * truth))
    if task == "multilabel":
        truth = (generator.random((rows, 3)) < 0.4).astype(np.int64)
        return answers_of(truth, np.clip(0.4 * truth + 0.6 * generator.random((rows, 3)), 0, 1))
    if task == "retrieval":
        places = generator.geometric(0.2, (rows, 7)).astype(np.float64)
        return Answers(np.zeros((rows, 2), np.int64), places)
    chances = np.r_[1 - share, np.full(classes - 1, share / (classes - 1))]
    truth = generator.choice(classes, rows, p=chances)
    # Rounded, so that some scores are equal.
    logits = np.round(generator.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[truth], 2)
    scores = np.exp(logits)
    return answers_of(truth, scores / scores.sum(axis=1, keepdims=True))


def _answers_for(name: str, rows: int, share: float = 0.3, classes: int = 2) -> Answers:
    answers = _answers(METRICS[name].task, rows, share, classes)
    if METRICS[name].of == "quantiles":
        each = answers.scores + np.array([-0.4, 0.0, 0.6])
        return answers_of(answers.truth, each, quantiles=(0.1, 0.5, 0.9), levels=answers.levels)
    if METRICS[name].of == "costs":
        costs = 1.0 + np.arange(classes**2).reshape(classes, classes) % 5
        np.fill_diagonal(costs, 0.0)
        return replace(answers, costs=tuple(map(tuple, costs.tolist())))
    return answers


def _cases() -> list[tuple[str, int]]:
    """Metrics of rows; those of queries are in `test_query_metrics`."""
    return [
        (name, classes)
        for name, fact in METRICS.items()
        if fact.task != "ranking"
        for classes in ((2, 3) if fact.task == "classification" and fact.classes == "any" else (2,))
    ]


@pytest.mark.parametrize(("name", "classes"), _cases())
def test_groups_have_the_interval_of_their_units(
    name: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = _answers_for(name, 6000, classes=classes)
    question = Question(np.arange(6000), weigh(name, answers, SECTION))
    draws = Resampling(np.arange(6000), 400, 0)
    alone = resample([question], draws)[0]
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 1000)
    monkeypatch.setattr(bootstrap, "FEW_ROWS", 1000)
    grouped = resample([question], draws)[0]
    assert grouped.std() == pytest.approx(alone.std(), rel=0.15)
    assert grouped.mean() == pytest.approx(alone.mean(), abs=0.25 * alone.std())


@pytest.mark.parametrize(("name", "classes"), _cases())
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_groups_of_one_row_have_the_values_of_the_rows(
    name: str, classes: int, share: float
) -> None:
    answers = _answers_for(name, 2500, share, classes)
    weighted = weigh(name, answers, SECTION)
    assert isinstance(weighted, Sums | BinSums | OneAgainstRest | PrecisionAtRecall)
    rows = np.arange(2500)
    weights = next(row_weights(Resampling(rows, 40, 0)))
    alone, grouped = weighted(weights), weighted.grouped(RowGroups(rows, 2500))(weights)
    # Sums, and rare positives of two classes, are the same; closed forms are near.
    exact = isinstance(weighted, Sums | BinSums) or (share < 0.1 and classes == 2)
    np.testing.assert_allclose(grouped, alone, atol=1e-9 if exact else 0.35 * alone.std())


def test_groups_keep_units_together(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)
    units = np.repeat(np.arange(4000), 5)
    chance = np.repeat(generator.uniform(0.05, 0.95, 4000), 5)
    truth = np.repeat(generator.integers(0, 2, 4000), 5)
    answers = answers_of(truth, np.stack([1 - chance, chance], axis=1))
    question = Question(np.arange(len(units)), weigh("roc_auc", answers, SECTION))
    alone = resample([question], Resampling(units, 300, 0))[0]
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 1000)
    grouped = resample([question], Resampling(units, 300, 0))[0]
    assert grouped.std() == pytest.approx(alone.std(), rel=0.15)


def test_the_method_is_named() -> None:
    assert method_of(10_000) == "bootstrap of units"
    many = method_of(10_001)
    assert many.startswith(
        "bootstrap of 2000 random groups of units; roc_auc and average_precision"
    )
    assert many.endswith("of more than 2000 rows and 500 positives by their first-order form")


@pytest.mark.parametrize(("name", "classes"), _cases())
def test_values_of_many_units_are_those_of_scikit_learn(
    name: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = _answers_for(name, 3000, classes=classes)
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 1000)
    monkeypatch.setattr(bootstrap, "FEW_ROWS", 1000)
    rows = np.arange(3000)
    (measured,) = measure_lines(
        [MeasuredMetric(name, answers, rows)], SECTION, Resampling(rows, 100, 0)
    )
    assert measured.interval.value == pytest.approx(measure(name, answers, SECTION), rel=1e-12)


def test_of_many_units_no_metric_sorts_or_checks_the_rows_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sorted_for: list[int] = []

    def ranked(truth: np.ndarray, scores: np.ndarray) -> Ranked:
        sorted_for.append(len(truth))
        return Ranked(truth, scores)

    def refuse(*_: object) -> float:
        raise AssertionError("computed anew")

    answers = _answers("classification", 3000)
    monkeypatch.setattr("trainwright.evaluation.metrics.ranking.Ranked", ranked)
    monkeypatch.setattr(metric_values, "POINTS", dict.fromkeys(metric_values.POINTS, refuse))
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 1000)
    rows = np.arange(3000)
    names = metric_values.metric_names(2)
    lines = [MeasuredMetric(name, answers, rows) for name in names]
    found = measure_lines(lines, SECTION, Resampling(rows, 100, 0))
    assert all(one.interval.given for one in found)
    assert sorted_for == [3000]


def test_one_product_gives_each_metric_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(2)
    shared, single = generator.random((50, 3)), generator.random(50)
    found = [
        GroupSums((shared, single), lambda sums, size: sums.sum(axis=1) / size),
        GroupSums((shared,), lambda sums: sums[:, 0]),
        GroupSums((single,), lambda size: size),
    ]
    weights = generator.integers(0, 3, (20, 50)).astype(float)
    for most in (1, 4, 100):
        monkeypatch.setattr(predictions, "_MOST_COLUMNS", most)
        for metric, values in zip(found, weigh_groups(found, weights), strict=True):
            np.testing.assert_allclose(values, metric(weights), rtol=1e-13)


def _binormal(rows: int, apart: float, seed: int) -> Answers:
    """Positives are drawn about `apart`, negatives about 0: the area is Phi(apart / sqrt 2)."""
    generator = np.random.default_rng(seed)
    truth = (generator.random(rows) < 0.4).astype(np.int64)
    chance = 1 / (1 + np.exp(-generator.normal(size=rows) - apart * truth))
    return answers_of(truth, np.stack([1 - chance, chance], axis=1))


@pytest.mark.parametrize("name", ["roc_auc", "average_precision"])
@pytest.mark.parametrize("apart", [0.5, 2.0, 3.5, 5.0])
def test_bounds_of_the_closed_form_are_those_of_the_resamples(
    name: str, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = _binormal(2001, apart, 1)
    rows = np.sort(np.random.default_rng(2).permutation(20_000)[:2001])
    question = Question(rows, weigh(name, answers, SECTION))
    value, draws = measure(name, answers, SECTION), Resampling(np.arange(20_000), 1000, 0)
    closed = share_interval(value, resample([question], draws)[0], 0.95, 2001)
    monkeypatch.setattr(bootstrap, "FEW_ROWS_OF_CLOSED_FORM", 2001)
    anew = share_interval(value, resample([question], draws)[0], 0.95, 2001)
    width = anew.high - anew.low
    assert closed.low == pytest.approx(anew.low, abs=0.05 * width)
    assert closed.high == pytest.approx(anew.high, abs=0.05 * width)
    assert closed != anew


@pytest.mark.extended
@pytest.mark.parametrize("apart", [0.5, 3.0])
def test_95_of_100_intervals_of_the_closed_form_hold_the_truth(
    apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from scipy.stats import norm

    monkeypatch.setattr(bootstrap, "MOST_UNITS", 2000)
    truth, rows, held = norm.cdf(apart / np.sqrt(2)), np.arange(2500), 0
    for seed in range(200):
        answers = _binormal(2500, apart, seed)
        question = Question(rows, weigh("roc_auc", answers, SECTION))
        values = resample([question], Resampling(rows, 200, seed))[0]
        interval = interval_of(measure("roc_auc", answers, SECTION), values, 0.95, 2500)
        held += interval.low <= truth <= interval.high
    assert 0.90 <= held / 200 <= 0.985


def test_bounds_of_a_share_are_shares() -> None:
    values = np.linspace(0.99, 1.004, 100)
    assert share_interval(0.998, values, 0.95, 3000).high == 1.0
    assert share_interval(0.002, 1 - values, 0.95, 3000).low == 0.0
