"""Recall by the number of candidates that are shown, and the size of the pool."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trainwright.data.base.table import Integers
from trainwright.data.columns.target_kind import Target
from trainwright.evaluation.curves.plot_data import PassageCurves, RetrievalCurves
from trainwright.evaluation.metrics.passage_retrieval import PASSAGE_CUTS, mean_of_queries
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.retrieval import CandidatePlaces

_SHOWN = (1, 2, 3, 5, 10, 20, 50, 100)


def count_candidates(codes: Integers) -> tuple[int, int]:
    """Different images and different texts among pairs with codes [N, 2]."""
    return len(np.unique(codes[:, 0])), len(np.unique(codes[:, 1]))


def draw_recalls(answers: Mapping[str, Answers], codes: Integers) -> RetrievalCurves:
    """Recall of the model and of each baseline at several cuts, in both directions."""
    images, texts = count_candidates(codes)
    shown = tuple(k for k in _SHOWN if k < max(images, texts)) or (1,)

    def recalls(side: int) -> dict[str, tuple[float, ...]]:
        places = {who: CandidatePlaces.of(each, side) for who, each in answers.items()}
        return {
            who: tuple(float(one.recall(k).mean()) for k in shown) for who, one in places.items()
        }

    return RetrievalCurves(images, texts, shown, recalls(0), recalls(1))


def draw_passages(answers: Mapping[str, Answers], codes: Integers) -> PassageCurves:
    """Recall of the model and of each baseline at 1, 5 and 10."""
    queries, passages = (len(np.unique(codes[:, side])) for side in (0, 1))
    recalls = {
        who: tuple(mean_of_queries(f"passage_recall_at_{k}", each) for k in PASSAGE_CUTS)
        for who, each in answers.items()
    }
    return PassageCurves(queries, passages, PASSAGE_CUTS, recalls)


def note_passages(codes: Integers) -> tuple[str, ...]:
    """The pool that every value is for."""
    queries, passages = (len(np.unique(codes[:, side])) for side in (0, 1))
    return (
        f"each of {queries:,} queries has {passages:,} passages to choose from: among more "
        "candidates values are lower, among fewer higher",
    )


def draw_retrieval(
    target: Target, answers: Mapping[str, Answers], codes: Integers
) -> RetrievalCurves | PassageCurves:
    """Curves of a target: both directions, or the passages of queries."""
    if target.is_one_way:
        return draw_passages(answers, codes)
    return draw_recalls(answers, codes)


def note_candidates(target: Target, codes: Integers) -> tuple[str, ...]:
    """The pool that every value is for."""
    if target.is_one_way:
        return note_passages(codes)
    images, texts = count_candidates(codes)
    return (
        f"each query has {texts:,} texts or {images:,} images to choose from: among more "
        "candidates recall is lower, among fewer higher",
    )
