"""Contracts about rankings and selections that contradict themselves or their rows."""

from __future__ import annotations

from collections.abc import Sequence

from advised.cases import ROWS, Case, csv

QUERIES = [f"q{at // 6:02d}" for at in range(ROWS)]


def _ranked(relevance: Sequence[object]) -> str:
    return csv(query_id=QUERIES, y=list(relevance))


RANKED = _ranked([at * 7 % 3 for at in range(ROWS)])
RATED = _ranked([at * 7 % 41 for at in range(ROWS)])
ALIKE_FROM_72 = _ranked([1 if 72 <= at < 96 else at % 2 for at in range(ROWS)])
TREES = "model={kind: boosting}"
QUERY = "data.query=query_id"
LISTNET = "training.loss.name=listnet"

CASES = (
    Case(
        "add for example data.query: query_id",
        ("task=ranking", TREES),
        rows=RANKED,
    ),
    Case(
        "remove data.order, or data.query",
        (QUERY, TREES, 'data.order=["0", "1", "2"]'),
        does=("-data.query",),
        rows=RANKED,
    ),
    Case(
        "remove query, or write task: ranking",
        ("task=classification", QUERY, TREES),
        rows=RANKED,
    ),
    Case(
        "remove data.split",
        (QUERY, TREES, "data.split.kind=stratified"),
        rows=RANKED,
    ),
    Case(
        "remove data.split",
        (QUERY, TREES, "data.split={kind: group, column: z}"),
        rows=RANKED,
    ),
    Case(
        "write data.split: {kind: group, column: query_id}, or give each file queries of its own",
        (QUERY, TREES, "data.split={kind: time, column: z}"),
        rows=RANKED,
    ),
    Case(
        "write task: ranking, or remove training.loss",
        ("task=regression", QUERY, LISTNET),
        "network",
        rows=RANKED,
    ),
    Case(
        "change it, or remove training.loss",
        (QUERY, "training.loss.name=mse"),
        "network",
        does=(LISTNET,),
        rows=RANKED,
    ),
    Case("remove compile", (QUERY, "training.compute.compile=on"), "network", rows=RANKED),
    Case(
        "remove it, or write task: ranking",
        ("task=regression", "model={kind: boosting, objective: lambdarank}"),
        rows=RANKED,
        leaves="needs the column of its queries",
    ),
    Case(
        "write metric.gain: linear",
        (QUERY, TREES, "metric={name: ndcg, gain: exponential}"),
        rows=RATED,
    ),
    Case(
        "add rows, or give the part a larger share",
        (QUERY, TREES, "data.split={kind: time, column: day, validation: 0.1, test: 0.2}"),
        does=("data.split.validation=0.5",),
        rows=ALIKE_FROM_72,
    ),
    Case(
        "change relevant_from, for example to the rating from which a row counts as good",
        (QUERY, TREES, "metric={name: map, relevant_from: 9}"),
        does=("metric.relevant_from=2",),
        rows=RANKED,
    ),
    Case(
        'say what is relevant: data.columns.y.values: {"yes": "1", "no": "0"}',
        ("task=ranking", QUERY, TREES),
        rows=_ranked([("no", "yes")[at * 7 % 3 == 0] for at in range(ROWS)]),
    ),
    Case(
        "write for example candidates: [linear, boosting]",
        ("model={kind: auto, candidates: [linear, linear]}",),
    ),
    Case(
        "remove bagging",
        (
            "model={kind: auto, candidates: [dummy, linear], bagging: 3}",
            "data.split={kind: time, column: z}",
        ),
    ),
)
