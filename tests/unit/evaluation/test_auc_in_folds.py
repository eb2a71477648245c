"""The ROC AUC over folds counts pairs of rows of one fold: scores of two models have no order."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from trainwright.contract.sections.metric import Metric, Slice
from trainwright.data.base.inputs import Floats, Integers, Part, TableInputs
from trainwright.data.columns.class_target import Classes
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.evaluation.evaluation_result import Evaluation
from trainwright.evaluation.experiments.copy_trials import judge_without
from trainwright.evaluation.intervals import bootstrap
from trainwright.evaluation.intervals.bootstrap import (
    Question,
    Resampling,
    resample,
    row_weights,
)
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics import ranking
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, RowGroups, answers_of, groups_of
from trainwright.evaluation.metrics.ranking import WithinFolds
from trainwright.evaluation.metrics.weighted_metrics import weigh
from trainwright.evaluation.verdict import judge

SECTION = Metric()
FOLDS = 5


def drifting(rows: int, classes: int = 2, skill: float = 0.0, seed: int = 0) -> Answers:
    """Folds whose class shares drift, and models that know the share of their fold and, as far as
    `skill` goes, the class; rounded, so that some scores are equal."""
    draws = np.random.default_rng(seed)
    folds = np.arange(rows) * FOLDS // rows
    last = np.linspace(0.1, 0.95, FOLDS)[folds]
    shares = np.column_stack([*[(1 - last) / (classes - 1)] * (classes - 1), last])
    truth = (draws.random(rows)[:, None] > shares.cumsum(axis=1)).sum(axis=1)
    noise = draws.normal(0, 0.5, (rows, classes))
    logits = np.round(np.log(shares) + skill * np.eye(classes)[truth] + noise, 1)
    return answers_of(truth, np.exp(logits), folds=folds)


def by_hand(answers: Answers, repeats: Integers) -> float:
    """A loop over folds by scikit-learn, weighted by pairs, of rows repeated so often."""
    assert answers.folds is not None
    codes = [1] if answers.classes == 2 else np.unique(answers.truth)
    values = []
    for code in codes:
        areas, pairs = [], []
        for fold in range(FOLDS):
            rows = np.repeat(np.arange(len(answers)), repeats * (answers.folds == fold))
            truth = answers.truth[rows] == code
            if 0 < truth.sum() < len(rows):
                areas.append(roc_auc_score(truth, answers.scores[rows, code]))
                pairs.append(truth.sum() * (~truth).sum())
        values.append(np.average(areas, weights=pairs))
    return float(np.mean(values))


def resampled(answers: Answers, resamples: int) -> Floats:
    draws = Resampling(np.arange(len(answers)), resamples, 0)
    question = Question(np.arange(len(answers)), weigh("roc_auc", answers, SECTION))
    return resample([question], draws)[0]


def grouped(classes: int) -> tuple[WithinFolds, RowGroups, Floats]:
    """The metric of 6,000 rows, in random groups, and how often each group is drawn."""
    metric = weigh("roc_auc", drifting(6000, classes, skill=0.7), SECTION)
    assert isinstance(metric, WithinFolds)
    groups = groups_of(np.arange(6000), 6000, 0)
    draws = Resampling(np.arange(groups.count), 400, 0)
    return metric, groups, np.concatenate(list(row_weights(draws)))


@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_that_of_each_fold_weighted_by_pairs(classes: int) -> None:
    answers = drifting(300, classes, skill=0.7)
    ones = np.ones(300, np.int64)
    assert measure("roc_auc", answers, SECTION) == pytest.approx(by_hand(answers, ones), abs=1e-12)
    (weights,) = row_weights(Resampling(np.arange(300), 20, 0))
    expected = [by_hand(answers, one) for one in weights.astype(np.int64)]
    np.testing.assert_allclose(resampled(answers, 20), expected, rtol=1e-12)


def test_noise_with_drifting_shares_is_a_coin() -> None:
    answers = drifting(2000)
    pooled = measure("roc_auc", answers_of(answers.truth, answers.scores), SECTION)
    assert pooled > 0.8
    line = MeasuredMetric("roc_auc", answers, np.arange(2000))
    (found,) = measure_lines([line], SECTION, Resampling(np.arange(2000), 200, 0))
    assert found.interval.low < 0.5 < found.interval.high
    assert found.interval.value == pytest.approx(0.5, abs=0.04)


def test_a_perfect_ranking_in_every_fold_is_perfect() -> None:
    truth = np.tile([0, 1, 1], FOLDS)
    folds = np.repeat(np.arange(FOLDS), 3)
    # The negative of a fold stands above the positives of the fold before.
    score = (folds + truth * 0.5) / FOLDS
    answers = answers_of(truth, np.column_stack([1 - score, score]), folds=folds)
    assert measure("roc_auc", answers, SECTION) == 1.0
    assert measure("roc_auc", answers_of(truth, answers.scores), SECTION) < 0.8


def test_a_fold_of_one_class_adds_nothing() -> None:
    truth, folds = np.array([0, 1, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1])
    score = np.array([0.1, 0.9, 0.6, 0.5, 0.0, 0.2])
    scores = np.column_stack([1 - score, score])
    answers = answers_of(truth, scores, folds=folds)
    assert measure("roc_auc", answers, SECTION) == 0.75
    assert weigh("roc_auc", answers, SECTION)(np.ones((1, 6)))[0] == 0.75
    alone = answers.take(np.array([0, 2, 4]))
    assert np.isnan(measure("roc_auc", alone, SECTION))
    assert np.isnan(weigh("roc_auc", alone, SECTION)(np.ones((1, 3)))[0])


@pytest.mark.extended
@pytest.mark.parametrize("classes", [2, 3])
def test_counts_at_few_thresholds_give_the_same_value(
    classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "FEW_POSITIVES", 10**6)
    metric, groups, weights = grouped(classes)
    assert not metric.has_closed_form
    expected = metric(np.take(weights, groups.of_row, axis=1))
    np.testing.assert_allclose(metric.grouped(groups)(weights), expected, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_first_order_form_has_the_interval_of_the_resamples(classes: int) -> None:
    metric, groups, weights = grouped(classes)
    assert metric.has_closed_form
    expected = metric(np.take(weights, groups.of_row, axis=1))
    values = metric.grouped(groups)(weights)
    assert np.corrcoef(values, expected)[0, 1] > 0.99
    low, high = np.quantile(expected, [0.025, 0.975])
    bounds = np.quantile(values, [0.025, 0.975])
    np.testing.assert_allclose(bounds, [low, high], atol=0.05 * (high - low))


def test_a_rare_class_alone_is_counted_at_few_thresholds() -> None:
    """Counts at the thresholds of a common class would not fit into memory."""
    draws = np.random.default_rng(0)
    truth = np.where(draws.random(6000) < 0.02, 2, draws.integers(0, 2, 6000))
    scores = np.exp(draws.normal(size=(6000, 3)) + np.eye(3)[truth])
    metric = weigh("roc_auc", answers_of(truth, scores, folds=np.arange(6000) % FOLDS), SECTION)
    assert isinstance(metric, WithinFolds)
    assert not metric.has_closed_form
    groups = groups_of(np.arange(6000), 6000, 0)
    found = metric.grouped(groups)
    assert sum(block.size // len(block) for block in found.blocks) < 1000
    draws_of_groups = Resampling(np.arange(groups.count), 50, 0)
    weights = np.concatenate(list(row_weights(draws_of_groups)))
    expected = metric(np.take(weights, groups.of_row, axis=1))
    np.testing.assert_allclose(found(weights), expected, atol=0.001)


def test_many_positives_and_no_negative_have_no_value() -> None:
    answers = answers_of(
        np.ones(1000, np.int64), np.full((1000, 2), 0.5), folds=np.arange(1000) % 2
    )
    metric = weigh("roc_auc", answers, SECTION)
    assert isinstance(metric, WithinFolds)
    groups = groups_of(np.arange(1000), 1000, 0)
    assert np.isnan(metric.grouped(groups)(np.ones((3, groups.count)))).all()


def test_many_rows_are_drawn_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = drifting(3000, skill=0.7)
    alone = resampled(answers, 400)
    monkeypatch.setattr(bootstrap, "MOST_UNITS", 1000)
    together = resampled(answers, 400)
    assert together.std() == pytest.approx(alone.std(), rel=0.15)
    assert together.mean() == pytest.approx(alone.mean(), abs=0.002)


@pytest.mark.extended
def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = measure("roc_auc", drifting(200_000, skill=0.7, seed=99), SECTION)
    held = 0
    for seed in range(200):
        answers = drifting(400, skill=0.7, seed=seed)
        line = MeasuredMetric("roc_auc", answers, np.arange(400))
        draws = Resampling(np.arange(400), 300, seed)
        (found,) = measure_lines([line], SECTION, draws)
        held += found.interval.low <= truth <= found.interval.high
    assert 0.90 <= held / 200 <= 0.99


def test_verdict_slices_and_what_is_judged_again_rank_within_folds() -> None:
    given = drifting(600, skill=0.5)
    # As `evaluate` makes them of the scores: rounding of their sum to 1 parts some ties.
    answers = answers_of(given.truth, given.scores, folds=given.folds)
    rows, frame = np.arange(600), pl.DataFrame({"half": np.arange(600) % 2})
    inputs = TableInputs(np.zeros((600, 0), np.float32), np.zeros((600, 0), np.int64))
    part = Part("test", frame, inputs, answers.truth, rows, rows)
    assert answers.folds is not None
    # A dummy of each fold's own class shares: pooled it ranks as well as the noise does.
    share = 0.1 + 0.2 * answers.folds
    dummy = np.column_stack([1 - share, share])
    scored = Scored(
        part,
        Classes("y", ("no", "yes"), 1),
        given.scores,
        {"dummy": dummy},
        folds=answers.folds,
    )
    metric = Metric(name="roc_auc", target=0.6, resamples=100)
    slices = [Slice(column="half", floor=0.55, metric="roc_auc")]
    evaluation = evaluate(scored, metric, slices, 0)
    value = by_hand(answers, np.ones(600, np.int64))
    assert evaluation.metrics["roc_auc"].value == pytest.approx(value)
    assert evaluation.baselines["dummy"]["roc_auc"].value == 0.5
    assert evaluation.gains["dummy"]["roc_auc"].value == pytest.approx(value - 0.5)
    odd = (np.arange(600) % 2).astype(np.int64)
    assert evaluation.slices[1].interval.value == pytest.approx(by_hand(answers, odd))
    clauses = judge(metric, slices, evaluation).clauses
    again = judge_without(np.arange(600) < 60, scored, clauses, metric, slices, 0)
    assert again.effect.before == pytest.approx(value)
    kept = (np.arange(600) >= 60).astype(np.int64)
    assert again.effect.after == pytest.approx(by_hand(answers, kept))
    assert Evaluation.from_json(evaluation.to_json()).to_json() == evaluation.to_json()
    assert evaluation.to_json()["intervals"].endswith("roc_auc counts pairs of rows of one fold")
