"""Hard negatives of text pairs, found by the model of a run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.core.errors import Mistake, Problem
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.columns.retrieval_targets import unit_rows
from trainwright.data.text_pairs.prepare_text_pairs import labelled_text_pairs
from trainwright.data.text_pairs.text_pair_encoder import TextPairEncoder
from trainwright.data.text_pairs.text_pair_table import QUERY_WORDS
from trainwright.run.folder.check_own_files import read_own_bundle
from trainwright.run.folder.planned_contract import read_planned
from trainwright.run.request import refuse_script_run
from trainwright.tracking.run_folder import RunFolder

_BLOCK = 2**22


class MinedPairs(NamedTuple):
    """The rows of a table with columns `negative_1` and so on, empty where there is none; their
    names, and how many cells are empty."""

    frame: pl.DataFrame
    columns: tuple[str, ...]
    empty: int


def mine_negatives(folder: RunFolder, data: str, count: int, margin: float) -> MinedPairs:
    """For each pair of a table the nearest `count` of its passages that do not answer the query,
    by the model of a run. A passage whose cosine is above `margin` times that of the query's
    own passage may answer it, too, and is passed over (Moreira et al. 2024, arXiv:2407.15831,
    section 3.1, TopK-PercPos).

    Raises:
        Mistake: the run compares no texts, or the table cannot be read.
    """
    refuse_script_run(folder, "compute embeddings in the script")
    predictor = read_own_bundle(folder)
    if not (predictor.target.task == "retrieval" and predictor.target.is_one_way):
        raise Mistake(
            Problem(
                f"the model of run {folder.name} compares no queries with passages",
                found=f"a run with task: {predictor.target.task}",
                expected="a run with data.kind: text_pairs",
                fix="train one",
            )
        )
    section = TextPairData.of(read_planned(folder).data)
    encoder = TextPairEncoder.of_kind(predictor.features)
    part, _, _ = labelled_text_pairs(data, encoder, section)
    names = tuple(f"negative_{at}" for at in range(1, count + 1))
    if taken := [name for name in names if name in part.frame.columns]:
        raise Mistake(
            Problem(
                "the table has a column of hard negatives already",
                path="PAIRS",
                found=", ".join(taken),
                expected="other names",
                fix="rename these columns, or remove them",
            )
        )
    scores = np.asarray(predictor.score(part.inputs), np.float64)
    queries, passages = (unit_rows(one) for one in np.split(scores, 2, axis=1))
    places = hard_negatives(part.target, queries, passages, count, margin)
    texts = part.frame[section.passage]
    frame = part.frame.drop(QUERY_WORDS).with_columns(
        pl.Series(name, [texts[at] if at >= 0 else None for at in places[:, column].tolist()])
        for column, name in enumerate(names)
    )
    return MinedPairs(frame, names, int((places < 0).sum()))


def hard_negatives(
    codes: Integers, queries: Floats, passages: Floats, count: int, margin: float
) -> Integers:
    """Rows [N, count] of the nearest passages that are negatives of pairs with embeddings of length
    1 and the codes of query and passage [N, 2]; -1 behind the end. Each different passage is one
    candidate; of a query with several passages the farthest sets the limit."""
    _, own_query = np.unique(codes[:, 0], return_inverse=True)
    _, first, own = np.unique(codes[:, 1], return_index=True, return_inverse=True)
    relevant = np.zeros((int(own_query.max()) + 1, len(first)), dtype=np.bool_)
    relevant[own_query, own] = True
    chosen = passages[first]
    found = np.full((len(codes), count), -1, dtype=np.int64)
    rows = max(1, _BLOCK // max(1, len(chosen)))
    for start in range(0, len(codes), rows):
        block = np.arange(start, min(start + rows, len(codes)))
        similar = queries[block] @ chosen.T
        right = relevant[own_query[block]]
        nearest = np.where(right, similar, np.inf).min(axis=1, keepdims=True)
        limit = nearest - (1 - margin) * np.abs(nearest)
        allowed = np.where(right | (similar >= limit), -np.inf, similar)
        order = np.argsort(-allowed, axis=1, kind="stable")[:, :count]
        is_one = np.isfinite(np.take_along_axis(allowed, order, axis=1))
        found[block, : order.shape[1]] = np.where(is_one, first[order], -1)
    return found
