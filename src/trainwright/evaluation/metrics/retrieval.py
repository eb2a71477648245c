"""Metrics of retrieval: images and texts in both directions, and passages by queries.

Candidates of equal scores stand in a random order: values are the expected ones over all such
orders, so that embeddings that are all alike score as chance.

In both directions a query is the image, or the text, of a pair; its candidates are all different
texts, or images, of the judged part, so that a value depends on their number. Right is every
candidate that is paired with an equal query.

For passages the candidates of a query are all different passages of the judged part, and right is
every passage that is paired with the query. A query with several passages counts once: each of its
pairs has the values of the query, and a weight of one over their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.target import Target
from trainwright.evaluation.metrics.predictions import Answers

_BLOCK = 2**22
_SIDES = ("image_to_text", "text_to_image")
_CUTS = (1, 5, 10)
_LOSS = 6
"""The column with the loss of a pair, behind three for each direction."""

Each = Callable[[Answers], Floats]

PASSAGE_CUTS = (1, 5, 10)
"""How many of the first passages a recall counts."""

_DEPTH = 10

PASSAGE_COLUMNS: Mapping[str, int] = MappingProxyType(
    {
        **{f"passage_recall_at_{k}": at for at, k in enumerate(PASSAGE_CUTS)},
        "passage_mrr": 3,
        "passage_ndcg_at_10": 4,
    }
)
"""The column of each metric in the scores of `answers_of_passages`."""

_WEIGHT, _PASSAGE_LOSS = 5, 6
_NAMES = (*PASSAGE_COLUMNS, "weight", "loss")


@final
class CandidatePlaces(NamedTuple):
    """For each query [N] the wrong candidates above the best right one, those of an equal score,
    and the right ones of that score."""

    above: Floats
    tied: Floats
    right: Floats

    @classmethod
    def of(cls, answers: Answers, side: int) -> CandidatePlaces:
        """Of a direction, from the scores of `answers_of_pairs`."""
        return cls(*answers.scores[:, 3 * side : 3 * side + 3].T)

    def recall(self, k: int) -> Floats:
        """Chance of a right candidate among the first k [N]."""
        left = k - self.above
        missed = np.ones(len(left))
        for place in range(k):
            # The chance that a place below the certain ones holds a wrong candidate.
            wrong = np.maximum(self.tied - place, 0) / np.maximum(self.tied + self.right - place, 1)
            missed = np.where(place < left, missed * wrong, missed)
        return 1 - missed

    def reciprocal_rank(self) -> Floats:
        """Expected 1 / rank of the first right candidate [N]."""
        kinds, member = np.unique(np.stack(self, axis=1), axis=0, return_inverse=True)
        return np.array([mean_reciprocal(*kind) for kind in kinds.tolist()])[member.ravel()]


def mean_reciprocal(above: float, tied: float, right: float) -> float:
    """Sum over places j of the tie of the chance that the first right one stands there, over its
    rank."""
    places = np.arange(int(tied) + 1)
    stays = np.maximum(tied - places, 0) / (tied + right - places)
    still = np.concatenate([[1.0], np.cumprod(stays[:-1])])
    return float((still * (1 - stays) / (above + places + 1)).sum())


def answers_of_pairs(codes: Integers, scores: Floats) -> Answers:
    """Places of the right candidates of pairs with embeddings `scores` [N, 2 D], and the codes of
    their images and texts [N, 2]: [N, 7], three numbers for each direction and the contrastive loss
    of the pair among all of them."""
    exact = np.asarray(scores, np.float64)
    assert bool(np.isfinite(exact).all()), "a model's scores are finite"
    images, texts = np.split(exact, 2, axis=1)
    there = _found(images, texts, codes)
    back = _found(texts, images, codes[:, ::-1])
    loss = (there[:, 3] + back[:, 3]) / 2
    return Answers(codes, np.column_stack([there[:, :3], back[:, :3], loss]))


def place_columns(answers: Answers) -> list[pl.Series]:
    """Answers of pairs as columns: the code of the image, then for each direction the rank of the
    right candidate, were ties broken in its favour, and those of its score; and the loss."""
    columns = [pl.Series("image", answers.truth[:, 0])]
    for side, name in enumerate(_SIDES):
        places = CandidatePlaces.of(answers, side)
        columns.append(pl.Series(f"{name}_rank", places.above.astype(np.int64) + 1))
        columns.append(pl.Series(f"{name}_tied", places.tied.astype(np.int64)))
        columns.append(pl.Series(f"{name}_right", places.right.astype(np.int64)))
    return [*columns, pl.Series("loss", answers.scores[:, _LOSS])]


def answers_of_places(frame: pl.DataFrame) -> Answers:
    """Inverse of `place_columns`, beside the code of the text as `target`."""
    columns = []
    for name in _SIDES:
        columns.append(frame[f"{name}_rank"].to_numpy() - 1)
        columns += [frame[f"{name}_{one}"].to_numpy() for one in ("tied", "right")]
    codes = np.stack([frame["image"].to_numpy(), frame["target"].to_numpy()], axis=1)
    return Answers(codes, np.column_stack([*columns, frame["loss"].to_numpy()]).astype(np.float64))


def _found(queries: Floats, candidates: Floats, codes: Integers) -> Floats:
    """Above, tied, right and loss of each query [N, 4]; `codes` are those of query and
    candidate."""
    different, first, own = np.unique(codes[:, 1], return_index=True, return_inverse=True)
    chosen = candidates[first]
    found = np.empty((len(queries), 4))
    order = np.argsort(codes[:, 0], kind="stable")
    starts = np.searchsorted(codes[order, 0], codes[:, 0], side="left")
    ends = np.searchsorted(codes[order, 0], codes[:, 0], side="right")
    rows = max(1, _BLOCK // max(1, len(different)))
    for start in range(0, len(queries), rows):
        block = np.arange(start, min(start + rows, len(queries)))
        similar = queries[block] @ chosen.T
        right = np.zeros(similar.shape, dtype=np.bool_)
        counts = ends[block] - starts[block]
        lines = np.repeat(np.arange(len(block)), counts)
        within = np.arange(len(lines)) - np.repeat(counts.cumsum() - counts, counts)
        right[lines, own[order[np.repeat(starts[block], counts) + within]]] = True
        best = np.where(right, similar, -np.inf).max(axis=1)[:, None]
        found[block, 0] = ((similar > best) & ~right).sum(axis=1)
        found[block, 1] = ((similar == best) & ~right).sum(axis=1)
        found[block, 2] = ((similar == best) & right).sum(axis=1)
        found[block, 3] = losses_of_queries(similar, right, own[block])
    return found


def losses_of_queries(logits: Floats, right: npt.NDArray[np.bool_], own: Integers) -> Floats:
    """Cross-entropy of each query's own candidate among it and the wrong ones [B]."""
    lines = np.arange(len(logits))
    of_own = logits[lines, own]
    others = np.where(right, -np.inf, logits)
    others[lines, own] = of_own
    most = others.max(axis=1)
    return np.asarray(np.log(np.exp(others - most[:, None]).sum(axis=1)) + most - of_own)


def mean_loss(answers: Answers) -> float:
    """Contrastive loss among all pairs of a part; it grows with the logarithm of their number."""
    return float(answers.scores[:, _LOSS].mean())


def _recall(side: int, k: int) -> Each:
    return lambda answers: CandidatePlaces.of(answers, side).recall(k)


def _mean_recall(answers: Answers) -> Floats:
    every = [CandidatePlaces.of(answers, side).recall(k) for side in (0, 1) for k in _CUTS]
    return np.asarray(np.mean(every, axis=0))


def _reciprocal(side: int) -> Each:
    return lambda answers: CandidatePlaces.of(answers, side).reciprocal_rank()


RETRIEVAL_VALUES: Mapping[str, Each] = MappingProxyType(
    {
        "mean_recall": _mean_recall,
        **{
            f"{name}_recall_at_{k}": _recall(side, k)
            for side, name in enumerate(_SIDES)
            for k in _CUTS
        },
        **{f"{name}_mrr": _reciprocal(side) for side, name in enumerate(_SIDES)},
    }
)
"""The value of each pair as a query [N], whose mean is the metric."""


def values_of_pairs(name: str, answers: Answers) -> Floats:
    """Value of each pair [N] by a metric of retrieval."""
    return answers.once(f"pairs {name}", lambda: RETRIEVAL_VALUES[name](answers))


def answers_of_passages(codes: Integers, scores: Floats) -> Answers:
    """Values of pairs with embeddings `scores` [N, 2 D] and the codes of their queries and passages
    [N, 2 and more]: [N, 7], recall at 1, 5 and 10 (the share of the right passages that are among
    the first), reciprocal rank of the first right one, NDCG at 10 with gains of 0 and 1 (Järvelin
    and Kekäläinen 2002), the weight, and the contrastive loss among the part's passages."""
    exact = np.asarray(scores, np.float64)
    assert bool(np.isfinite(exact).all()), "a model's scores are finite"
    queries, passages = np.split(exact, 2, axis=1)
    pairs = codes[:, :2]
    _, first_pair, own_query = np.unique(pairs[:, 0], return_index=True, return_inverse=True)
    _, first, own = np.unique(pairs[:, 1], return_index=True, return_inverse=True)
    chosen = passages[first]
    relevant = np.zeros((len(first_pair), len(first)), dtype=np.bool_)
    relevant[own_query, own] = True
    found = np.empty((len(pairs), 7))
    rows = max(1, _BLOCK // max(1, len(chosen)))
    for start in range(0, len(pairs), rows):
        block = np.arange(start, min(start + rows, len(pairs)))
        similar = queries[block] @ chosen.T
        right = relevant[own_query[block]]
        found[block, :5] = np.array(
            [_values(one, which) for one, which in zip(similar, right, strict=True)]
        ).reshape(len(block), 5)
        found[block, _PASSAGE_LOSS] = losses_of_queries(similar, right, own[block])
    found[:, _WEIGHT] = 1 / np.bincount(own_query)[own_query]
    return Answers(pairs, found)


def _values(scores: Floats, right: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    """Recalls, reciprocal rank and NDCG of a query with `scores` [C] of its candidates."""
    own = scores[right]
    above = (scores[None] > own[:, None]).sum(axis=1)
    tied = (scores[None] == own[:, None]).sum(axis=1)
    recalls = [float((np.clip(k - above, 0, tied) / tied).mean()) for k in PASSAGE_CUTS]
    best = own == own.max()
    wrong = int(tied[best][0] - best.sum())
    reciprocal = mean_reciprocal(float(above[best][0]), float(wrong), float(best.sum()))
    gained = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(_DEPTH) + 2))])
    ends = np.minimum(above + tied, _DEPTH)
    share = (gained[ends] - gained[np.minimum(above, _DEPTH)]) / tied
    ndcg = float(share.sum() / gained[min(len(own), _DEPTH)])
    return (*recalls, reciprocal, ndcg)


def passage_sums(name: str, answers: Answers) -> Floats:
    """[N, 2]: the weighted value of each pair and its weight, whose ratio of sums is the mean over
    the queries."""
    weight = answers.scores[:, _WEIGHT]
    return np.column_stack([answers.scores[:, PASSAGE_COLUMNS[name]] * weight, weight])


def mean_of_queries(name: str, answers: Answers) -> float:
    """The metric."""
    value, weight = passage_sums(name, answers).sum(axis=0)
    return float(value / weight)


def passage_columns(answers: Answers) -> list[pl.Series]:
    """Answers of text pairs as columns: the code of the query, its values, weight and loss."""
    return [
        pl.Series("query", answers.truth[:, 0]),
        *(pl.Series(name, answers.scores[:, at]) for at, name in enumerate(_NAMES)),
    ]


def answers_of_columns(frame: pl.DataFrame) -> Answers:
    """Inverse of `passage_columns`, beside the code of the passage as `target`."""
    codes = np.stack([frame["query"].to_numpy(), frame["target"].to_numpy()], axis=1)
    return Answers(codes, frame.select(_NAMES).to_numpy().astype(np.float64))


def answers_of_retrieval(target: Target, codes: Integers, scores: Floats) -> Answers:
    """Of pairs with codes and embeddings [N, 2 D]: both directions, or the passages of queries."""
    if target.is_one_way:
        return answers_of_passages(codes, scores)
    return answers_of_pairs(codes, scores)
