"""Answers of a retrieval, by what its target asks."""

from __future__ import annotations

from trainwright.data.base.table import Floats, Integers
from trainwright.data.columns.target_kind import Target
from trainwright.evaluation.metrics.passage_retrieval import answers_of_passages
from trainwright.evaluation.metrics.predictions import Answers
from trainwright.evaluation.metrics.retrieval import answers_of_pairs


def answers_of_retrieval(target: Target, codes: Integers, scores: Floats) -> Answers:
    """Of pairs with codes and embeddings [N, 2 D]: both directions, or the passages of queries."""
    if target.is_one_way:
        return answers_of_passages(codes, scores)
    return answers_of_pairs(codes, scores)
