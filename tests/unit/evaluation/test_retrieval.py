"""Places of right candidates against a count by hand, and expected values of ties."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.retrieval_targets import Matching
from trainwright.evaluation.curves.retrieval_curves import (
    count_candidates,
    draw_recalls,
    note_candidates,
)
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.retrieval import answers_of_pairs, mean_loss

OF_IMAGES = [name for name, fact in METRICS.items() if fact.of == "images"]


def made(rows: int, width: int = 4, seed: int = 0) -> Floats:
    draw = np.random.default_rng(seed)
    images = draw.normal(size=(rows, width))
    return np.concatenate([images, images + draw.normal(size=(rows, width))], axis=1)


def distinct(rows: int) -> Integers:
    return np.stack([np.arange(rows)] * 2, axis=1)


def ranks_by_hand(scores: Floats, codes: Integers) -> tuple[list[int], list[int]]:
    """Rank of the best right candidate among different ones, of each row, in both directions."""
    images, texts = np.split(scores, 2, axis=1)
    found = []
    for queries, candidates, side in ((images, texts, 0), (texts, images, 1)):
        of_query, of_candidate = codes[:, side], codes[:, 1 - side]
        ranks = []
        for row in range(len(scores)):
            seen: dict[int, float] = {}
            for other in range(len(scores)):
                first = int(np.flatnonzero(of_candidate == of_candidate[other])[0])
                seen[int(of_candidate[other])] = float(queries[row] @ candidates[first])
            right = {int(c) for c in of_candidate[of_query == of_query[row]]}
            ranking = sorted(seen, key=lambda code: -seen[code])
            ranks.append(1 + min(ranking.index(code) for code in right))
        found.append(ranks)
    return found[0], found[1]


@pytest.mark.parametrize("shares", [False, True])
def test_metrics_are_those_of_a_count_by_hand(shares: bool) -> None:
    scores = made(40)
    codes = distinct(40)
    if shares:
        codes = np.stack([np.arange(40) // 2, np.arange(40) % 33], axis=1)
        scores[1::2, :4] = scores[::2, :4]  # equal images have equal embeddings
        scores[33:, 4:] = scores[:7, 4:]
    there, back = ranks_by_hand(scores, codes)
    answers = answers_of_pairs(codes, scores)
    for name, ranks in (("image_to_text", there), ("text_to_image", back)):
        for k in (1, 5, 10):
            expected = np.mean([rank <= k for rank in ranks])
            assert measure(f"{name}_recall_at_{k}", answers, Metric()) == pytest.approx(expected)
        reciprocal = np.mean([1 / rank for rank in ranks])
        assert measure(f"{name}_mrr", answers, Metric()) == pytest.approx(reciprocal)
    recalls = [measure(name, answers, Metric()) for name in OF_IMAGES if "recall_at" in name]
    assert measure("mean_recall", answers, Metric()) == pytest.approx(np.mean(recalls))


def test_embeddings_that_are_alike_are_worth_chance() -> None:
    answers = answers_of_pairs(distinct(50), np.ones((50, 2)))
    assert measure("image_to_text_recall_at_1", answers, Metric()) == pytest.approx(1 / 50)
    assert measure("text_to_image_recall_at_10", answers, Metric()) == pytest.approx(10 / 50)
    harmonic = sum(1 / rank for rank in range(1, 51)) / 50
    assert measure("image_to_text_mrr", answers, Metric()) == pytest.approx(harmonic)


def test_ties_are_worth_their_mean_over_all_orders() -> None:
    """Two right and three wrong candidates of one score, below one wrong one."""
    codes = np.array([[0, 0], [0, 1], [1, 2], [2, 3], [3, 4], [4, 5]])
    scores = np.zeros((6, 2))
    scores[:, 0] = 1.0
    scores[5, 1] = 2.0
    orders = list(permutations([True, True, False, False, False]))
    ranks = [2 + order.index(True) for order in orders]
    first = answers_of_pairs(codes, scores).take(np.array([0]))
    reciprocal = measure("image_to_text_mrr", first, Metric())
    assert reciprocal == pytest.approx(np.mean([1 / rank for rank in ranks]))
    at_5 = measure("image_to_text_recall_at_5", first, Metric())
    assert at_5 == pytest.approx(np.mean([rank <= 5 for rank in ranks]))
    assert measure("image_to_text_recall_at_1", first, Metric()) == 0


def test_a_slice_keeps_the_candidates_of_the_whole_part() -> None:
    scores, codes = made(30), distinct(30)
    answers = answers_of_pairs(codes, scores)
    rows = np.arange(0, 30, 3)
    there = np.array(ranks_by_hand(scores, codes)[0])
    sliced = measure("image_to_text_recall_at_1", answers.take(rows), Metric())
    assert sliced == pytest.approx((there[rows] == 1).mean())


def test_the_bootstrap_draws_queries() -> None:
    """Its values are means over drawn units, with the pool as it is."""
    scores, codes = made(60), distinct(60)
    answers = answers_of_pairs(codes, scores)
    line = MeasuredMetric("image_to_text_recall_at_5", answers, np.arange(60))
    section = Metric(resamples=300)
    (found,) = measure_lines([line], section, Resampling(np.arange(60) // 2, 300, 0))
    ranks = np.array(ranks_by_hand(scores, codes)[0])
    share = (ranks <= 5).mean()
    assert found.interval.value == pytest.approx(share)
    assert found.interval.low < share < found.interval.high
    assert np.allclose(found.values * 60, np.round(found.values * 60))


def test_the_loss_is_the_cross_entropy_among_all() -> None:
    scores, codes = made(20), distinct(20)
    logits = scores[:, :4] @ scores[:, 4:].T
    there = np.log(np.exp(logits).sum(axis=1)) - np.diag(logits)
    back = np.log(np.exp(logits).sum(axis=0)) - np.diag(logits)
    expected = (there.mean() + back.mean()) / 2
    assert mean_loss(answers_of_pairs(codes, scores)) == pytest.approx(expected)


def test_the_pool_is_told() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 2]])
    assert count_candidates(codes) == (2, 3)
    assert "3 texts or 2 images" in note_candidates(Matching("caption", "image"), codes)[0]
    curves = draw_recalls({"model": answers_of_pairs(codes, made(3))}, codes)
    assert (curves.images, curves.texts) == (2, 3)


def test_every_metric_of_a_retrieval_is_computed() -> None:
    answers = answers_of_pairs(distinct(12), made(12))
    assert len(OF_IMAGES) == 9
    assert all(0 <= measure(name, answers, Metric()) <= 1 for name in OF_IMAGES)
