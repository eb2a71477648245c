"""Passages found by queries: values by scikit-learn, by enumeration of ties, and by query."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from trainwright.contract.sections.metric import METRICS, Metric
from trainwright.data.base.inputs import Floats, Integers
from trainwright.evaluation.intervals.bootstrap import Resampling
from trainwright.evaluation.intervals.resampled_metrics import MeasuredMetric, measure_lines
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.evaluation.metrics.retrieval import PASSAGE_COLUMNS, answers_of_passages, mean_loss
from trainwright.run.after.mine_negatives import hard_negatives


def made(seed: int = 0) -> tuple[Integers, Floats]:
    """60 pairs of 30 queries and 41 passages; equal texts have equal embeddings."""
    draw = np.random.default_rng(seed)
    codes = np.stack([np.arange(60) % 30, np.arange(60) % 41], axis=1)
    queries, passages = draw.normal(size=(30, 6)), draw.normal(size=(41, 6))
    return codes, np.concatenate([queries[codes[:, 0]], passages[codes[:, 1]]], axis=1)


def by_hand(codes: Integers, scores: Floats) -> dict[str, float]:
    """Means over the queries."""
    queries, passages = np.split(scores, 2, axis=1)
    first = {int(code): at for at, code in reversed(list(enumerate(codes[:, 1])))}
    pool = sorted(first)
    found: dict[str, list[float]] = {name: [] for name in PASSAGE_COLUMNS}
    for query in np.unique(codes[:, 0]):
        own = queries[np.flatnonzero(codes[:, 0] == query)[0]]
        similar = np.array([own @ passages[first[code]] for code in pool])
        right = np.isin(pool, codes[codes[:, 0] == query, 1])
        ranks = 1 + np.array([int((similar > one).sum()) for one in similar[right]])
        for k in (1, 5, 10):
            found[f"passage_recall_at_{k}"].append(float((ranks <= k).mean()))
        found["passage_mrr"].append(1 / ranks.min())
        found["passage_ndcg_at_10"].append(
            float(ndcg_score(right[None].astype(float), similar[None], k=10))
        )
    return {name: float(np.mean(values)) for name, values in found.items()}


def test_metrics_are_those_of_scikit_learn_and_a_count() -> None:
    codes, scores = made()
    # One query has one pair, others several: each counts once.
    codes, scores = codes[:47], scores[:47]
    answers = answers_of_passages(codes, scores)
    for name, expected in by_hand(codes, scores).items():
        assert measure(name, answers, Metric()) == pytest.approx(expected), name


def test_ties_are_worth_their_mean_over_all_orders() -> None:
    """Four candidates, of which the two right ones tie with a wrong one."""
    codes = np.array([[0, 0], [0, 1], [1, 2], [1, 3]])
    queries = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]])
    passages = np.array([[0.5, 9], [0.5, 9], [0.5, 9], [0.1, 9]])
    answers = answers_of_passages(codes, np.concatenate([queries, passages], axis=1))
    discount = 1 / np.log2(np.arange(4) + 2)
    values = []
    for order in permutations([1, 1, 0]):
        ranks = np.array([*order, 0])
        values.append(
            (
                ranks[0] / 2,
                1.0,
                1.0,
                1 / (1 + int(np.flatnonzero(ranks)[0])),
                (ranks * discount).sum() / discount[:2].sum(),
            )
        )
    np.testing.assert_allclose(answers.scores[0, :5], np.mean(values, axis=0))
    assert answers.scores[0, 5] == 0.5


def test_constant_embeddings_are_worth_chance() -> None:
    codes = np.stack([np.arange(50)] * 2, axis=1)
    answers = answers_of_passages(codes, np.ones((50, 4)))
    assert measure("passage_recall_at_10", answers, Metric()) == pytest.approx(0.2)
    assert mean_loss(answers) == pytest.approx(np.log(50))


def test_the_loss_is_among_different_passages() -> None:
    codes, scores = made(1)
    queries, passages = np.split(scores, 2, axis=1)
    answers = answers_of_passages(codes, scores)
    _, first = np.unique(codes[:, 1], return_index=True)
    for row in (0, 7, 59):
        right = set(codes[codes[:, 0] == codes[row, 0], 1].tolist())
        others = [at for at in first if codes[at, 1] not in right]
        logits = passages[[row, *others]] @ queries[row]
        assert answers.scores[row, 6] == pytest.approx(np.log(np.exp(logits).sum()) - logits[0])


@pytest.mark.extended
def test_many_queries_give_the_intervals_of_few() -> None:
    """Beyond 10,000 units values come from sums; both ways agree on the same queries."""
    draw = np.random.default_rng(0)
    codes = np.stack([np.arange(10_400) // 1, np.arange(10_400) % 60], axis=1)
    scores = draw.normal(size=(10_400, 4))
    scores[:, 2:] = draw.normal(size=(60, 2))[codes[:, 1]]
    answers = answers_of_passages(codes, scores)
    rows = np.arange(len(codes))
    for name in PASSAGE_COLUMNS:
        line = MeasuredMetric(name, answers, rows)
        (found,) = measure_lines([line], Metric(resamples=100), Resampling(codes[:, 0], 100, 0))
        assert found.interval.value == pytest.approx(measure(name, answers, Metric()))
        assert found.interval.low < found.interval.value < found.interval.high


def test_every_metric_of_passages_has_a_column() -> None:
    assert set(PASSAGE_COLUMNS) == {n for n, fact in METRICS.items() if fact.of == "passages"}


def test_mined_negatives_stay_below_the_margin_and_are_never_right() -> None:
    codes, scores = made(2)
    queries, passages = (
        one / np.linalg.norm(one, axis=1, keepdims=True) for one in np.split(scores, 2, axis=1)
    )
    cosines = queries @ passages.T
    for margin in (0.5, 0.95, 1.0):
        found = hard_negatives(codes, queries, passages, 4, margin)
        assert (found >= 0).any()
        for row in range(60):
            right = codes[codes[:, 0] == codes[row, 0], 1]
            least = cosines[row, np.isin(codes[:, 1], right)].min()
            limit = least - (1 - margin) * abs(least)
            mined = found[row][found[row] >= 0]
            assert not np.isin(codes[mined, 1], right).any()
            assert (cosines[row, mined] < limit).all()
            assert len(set(codes[mined, 1].tolist())) == len(mined)
            # The nearest ones below the limit, and all of them if there are fewer.
            allowed = cosines[row][(cosines[row] < limit) & ~np.isin(codes[:, 1], right)]
            expected = np.unique(allowed)[::-1][: len(mined)]
            np.testing.assert_allclose(cosines[row, mined], expected)
            assert len(mined) == min(4, len(np.unique(allowed)))
