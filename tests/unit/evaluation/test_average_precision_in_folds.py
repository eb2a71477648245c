"""The average precision over folds ranks rows within their fold: one share of each a threshold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.intervals.bootstrap import Question, Resampling, resample, row_weights
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of, groups_of
from trainwright.evaluation.metrics.ranking import OneAgainstRest
from trainwright.evaluation.metrics.weighted_metrics import weigh

NAME, SECTION, FOLDS = "average_precision", Metric(), 5
DRIFTING = np.linspace(0.1, 0.95, FOLDS)


def scored(rows: int, shares: Floats, skill: float, seed: int = 0) -> Answers:
    """Folds with these shares of positives, and models that know the share of their fold and, as
    far as `skill` goes, the class; rounded, so that some scores are equal."""
    draws = np.random.default_rng(seed)
    folds = np.arange(rows) * FOLDS // rows
    truth = (draws.random(rows) < shares[folds]).astype(np.int64)
    odds = np.log(shares / (1 - shares))[folds] + skill * truth + draws.normal(0, 0.5, rows)
    positive = 1 / (1 + np.exp(-np.round(odds, 2)))
    return answers_of(truth, np.column_stack([1 - positive, positive]), folds=folds)


def by_hand(answers: Answers) -> float:
    assert answers.folds is not None
    ranks = np.empty(len(answers))
    for fold in range(FOLDS):
        rows = answers.folds == fold
        ranks[rows] = (rankdata(answers.scores[rows, 1]) - 0.5) / rows.sum()
    return float(average_precision_score(answers.truth, ranks))


def test_it_is_that_of_the_ranks_within_folds() -> None:
    answers = scored(307, DRIFTING, skill=1.0)
    ones = weigh(NAME, answers, SECTION)(np.ones((1, 307)))
    assert measure(NAME, answers, SECTION) == pytest.approx(by_hand(answers), abs=1e-12)
    assert ones[0] == pytest.approx(by_hand(answers), abs=1e-12)
    # The order of the folds' models has no part in it.
    folds = answers.folds
    assert folds is not None
    moved = answers.scores[:, 1] * 0.1 + 0.15 * folds
    other = answers_of(answers.truth, np.column_stack([1 - moved, moved]), folds=folds)
    assert measure(NAME, other, SECTION) == pytest.approx(by_hand(answers), abs=1e-12)


def test_without_folds_it_is_that_of_the_scores() -> None:
    answers = scored(300, DRIFTING, skill=1.0)
    alone = answers_of(answers.truth, answers.scores)
    expected = float(average_precision_score(answers.truth, answers.scores[:, 1]))
    assert alone.ranked_in_folds() is alone
    assert measure(NAME, alone, SECTION) == expected


def test_noise_with_drifting_shares_gains_nothing_on_a_dummy() -> None:
    """Of 60 tables about as many say so as the interval allows; pooled all of them do."""
    gains = {"in folds": 0, "pooled": 0}
    for seed in range(60):
        answers = scored(900, DRIFTING, skill=0.0, seed=seed)
        dummy = answers_of(answers.truth, np.full((900, 2), 0.5), folds=answers.folds)
        for how, folds in (("in folds", answers.folds), ("pooled", None)):
            both = [answers_of(one.truth, one.scores, folds=folds) for one in (answers, dummy)]
            questions = [Question(np.arange(900), weigh(NAME, one, SECTION)) for one in both]
            values = resample(questions, Resampling(np.arange(900), 100, seed))
            gains[how] += bool(np.quantile(values[0] - values[1], 0.025) > 0)
    assert gains["in folds"] <= 6
    assert gains["pooled"] == 60


def test_scores_that_are_all_equal_have_the_share_of_positives() -> None:
    """In folds of other sizes too."""
    truth, folds = np.tile([0, 1, 0, 0], 5), np.repeat([0, 1, 2], [3, 7, 10])
    constant = 0.1 + 0.3 * folds
    answers = answers_of(truth, np.column_stack([1 - constant, constant]), folds=folds)
    assert measure(NAME, answers, SECTION) == pytest.approx(0.25)


def test_few_positives_in_each_fold_are_no_gain() -> None:
    """The mean of the folds' values is biased upward: it calls 4 of 5 noise models better."""
    shares = np.full(FOLDS, 0.1)
    values = [measure(NAME, scored(500, shares, 0.0, seed), SECTION) for seed in range(40)]
    assert np.mean(values) == pytest.approx(0.108, abs=0.008)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    truth = measure(NAME, scored(200_000, DRIFTING, 0.7, seed=99), SECTION)
    held = 0
    for seed in range(150):
        answers = scored(400, DRIFTING, 0.7, seed)
        line = MeasuredMetric(NAME, answers, np.arange(400))
        (found,) = measure_lines([line], SECTION, Resampling(np.arange(400), 200, seed))
        held += found.interval.low <= truth <= found.interval.high
    assert 0.90 <= held / 150 <= 0.99


def test_the_first_order_form_has_the_interval_of_the_resamples() -> None:
    metric = weigh(NAME, scored(6000, DRIFTING, 0.7), SECTION)
    assert isinstance(metric, OneAgainstRest)
    assert metric.has_closed_form
    groups = groups_of(np.arange(6000), 6000, 0)
    weights = np.concatenate(list(row_weights(Resampling(np.arange(groups.count), 300, 0))))
    expected = metric(np.take(weights, groups.of_row, axis=1))
    assert np.corrcoef(metric.grouped(groups)(weights), expected)[0, 1] > 0.99


def test_of_several_classes_each_has_its_ranks() -> None:
    draws = np.random.default_rng(0)
    truth, folds = draws.integers(0, 3, 300), np.arange(300) % FOLDS
    scores = np.exp(draws.normal(size=(300, 3)) + np.eye(3)[truth] + folds[:, None] * [0, 1, 2])
    answers = answers_of(truth, scores, folds=folds)
    ranks = np.empty((300, 3))
    for fold in range(FOLDS):
        ranks[folds == fold] = rankdata(answers.scores[folds == fold], axis=0)
    expected = [average_precision_score(truth == code, ranks[:, code]) for code in range(3)]
    assert measure(NAME, answers, SECTION) == pytest.approx(np.mean(expected), abs=1e-12)
    weighted = weigh(NAME, answers, SECTION)(np.ones((1, 300)))
    assert weighted[0] == pytest.approx(np.mean(expected), abs=1e-12)
