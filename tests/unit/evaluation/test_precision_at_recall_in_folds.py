"""The precision at a recall over folds: a threshold takes the same share of each fold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import rankdata
from sklearn.metrics import precision_recall_curve

from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import Floats
from trainwright.evaluation.intervals.bootstrap import Question, Resampling, resample
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.predictions import Answers, answers_of
from trainwright.evaluation.metrics.weighted_metrics import weigh

NAME, SECTION, FOLDS = "precision_at_recall", Metric(recall=0.9), 5
DRIFTING = np.linspace(0.1, 0.95, FOLDS)


def scored(rows: int, skill: float, seed: int = 0) -> Answers:
    """Folds whose models know the share of their fold and, as far as `skill` goes, the class."""
    draws = np.random.default_rng(seed)
    folds = np.arange(rows) * FOLDS // rows
    truth = (draws.random(rows) < DRIFTING[folds]).astype(np.int64)
    odds = np.log(DRIFTING / (1 - DRIFTING))[folds] + skill * truth + draws.normal(0, 0.5, rows)
    return answers_of(truth, two_columns(1 / (1 + np.exp(-odds))), folds=folds)


def two_columns(positive: Floats) -> Floats:
    return np.column_stack([1 - positive, positive])


def test_it_is_that_of_the_ranks_within_folds() -> None:
    answers = scored(307, skill=1.0)
    assert answers.folds is not None
    ranks = np.empty(307)
    for fold in range(FOLDS):
        rows = answers.folds == fold
        ranks[rows] = (rankdata(answers.scores[rows, 1]) - 0.5) / rows.sum()
    precision, recall, _ = precision_recall_curve(answers.truth, ranks)
    expected = precision[recall >= 0.9].max()
    assert measure(NAME, answers, SECTION) == pytest.approx(expected, abs=1e-12)
    weighted = weigh(NAME, answers, SECTION)(np.ones((1, 307)))
    assert weighted[0] == pytest.approx(expected, abs=1e-12)
    alone = answers_of(answers.truth, answers.scores)
    precision, recall, _ = precision_recall_curve(answers.truth, answers.scores[:, 1])
    assert measure(NAME, alone, SECTION) == precision[recall >= 0.9].max()


def test_noise_with_drifting_shares_gains_no_more_than_without_folds() -> None:
    """The best of many thresholds favours noise over a constant anyway; pooled folds, always."""
    gains = {"in folds": 0, "pooled": 0}
    for seed in range(60):
        answers = scored(900, skill=0.0, seed=seed)
        dummy = answers_of(answers.truth, np.full((900, 2), 0.5), folds=answers.folds)
        for how, folds in (("in folds", answers.folds), ("pooled", None)):
            both = [answers_of(one.truth, one.scores, folds=folds) for one in (answers, dummy)]
            questions = [Question(np.arange(900), weigh(NAME, one, SECTION)) for one in both]
            values = resample(questions, Resampling(np.arange(900), 100, seed))
            gains[how] += bool(np.quantile(values[0] - values[1], 0.025) > 0)
    assert gains["in folds"] <= 20
    assert gains["pooled"] == 60
