"""Rules on a ranking: its query, split, model and loss."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data_traits import Uniform
from trainwright.contract.sections.data.split import (
    RandomSplit,
    StratifiedGroupSplit,
    StratifiedSplit,
)
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.objective import LOSSES_OF_QUERIES, AutoLoss
from trainwright.core.errors import Problem

_OPTIONS = {"k": ("ndcg", "map", "mrr"), "gain": ("ndcg",), "relevant_from": ("map", "mrr")}


def query_is_named(
    contract: Contract, data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """A ranking has queries, and nothing else has; `auto` is a ranking where they are named."""
    if contract.task == "ranking" and not data.query:
        yield Problem(
            "a ranking needs the column of its queries",
            path="data.query" if "data.query" in written else "task",
            found="no data.query",
            expected="the column whose rows are ranked against each other",
            fix="add for example data.query: query_id",
        )
    if data.query and contract.task not in ("ranking", "auto"):
        yield Problem(
            f"a {contract.task} has no queries",
            path="data.query",
            found=data.query,
            expected="query only where task is ranking",
            fix="remove query, or write task: ranking",
        )
    if data.query and data.query in data.target_columns:
        yield Problem(
            f"the query is the target {data.query!r}",
            path="data.query",
            found=data.query,
            expected="another column than data.target",
            fix="name the column whose rows are ranked against each other",
        )


def classes_are_not_ranked(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """`auto` is a ranking where queries are named, and a ranking has no classes."""
    if contract.task == "auto" and is_ranking(contract, data) and data.order:
        yield Problem(
            "a ranking goes by numbers, which have an order of their own",
            path="data.order",
            found="data.order beside data.query",
            expected="one of the two",
            fix="remove data.order, or data.query",
        )


def queries_stay_whole(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Rows of one query are never in two parts."""
    if not is_ranking(contract, data):
        return
    match data.split:
        case RandomSplit(key=key) if key == data.query:
            return
        case RandomSplit() | StratifiedSplit() | StratifiedGroupSplit():
            yield Problem(
                f"a {data.split.kind} split would tear queries apart",
                path="data.split.kind",
                found=data.split.kind,
                expected="group, time, column or file; without data.split the queries are divided",
                fix="remove data.split",
            )
        case _:
            return


def model_ranks(contract: Contract, data: TableData, _written: frozenset[str]) -> Iterator[Problem]:
    """The model, its loss and its sampling know queries."""
    model, training = contract.model, contract.training
    if not is_ranking(contract, data):
        if isinstance(training.loss, LOSSES_OF_QUERIES):
            yield Problem(
                f"{training.loss.name} is a loss of a ranking",
                path="training.loss.name",
                found=training.loss.name,
                expected="a loss of the task",
                fix="write task: ranking, or remove training.loss",
            )
        return
    fitting = kinds_with(lambda traits: traits.ranks)
    if not model.traits.ranks:
        yield Problem(
            f"a model of kind {model.kind} cannot rank",
            path="model.kind",
            found=model.kind,
            expected=f"one of: {', '.join(fitting)}",
            fix=f"choose {fitting[0]}",
        )
        return
    if model.is_loop_trained and not isinstance(training.loss, AutoLoss | LOSSES_OF_QUERIES):
        yield Problem(
            f"{training.loss.name} is no loss of a ranking",
            path="training.loss.name",
            found=training.loss.name,
            expected="listnet or ranknet",
            fix="change it, or remove training.loss",
        )
    if model.is_loop_trained and not isinstance(data.sampling, Uniform):
        yield Problem(
            "the rows of a query are visited together, so none is drawn by itself",
            path="data.sampling.kind",
            found=data.sampling.kind,
            expected="uniform",
            fix="remove data.sampling",
        )


def queries_are_not_compiled(
    contract: Contract, data: TableData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Kernels are made for each number of rows, and the queries of a micro-batch have any."""
    if is_ranking(contract, data) and contract.training.compute.compile == "on":
        yield Problem(
            "each number of rows that queries have would be compiled by itself",
            path="training.compute.compile",
            found="on",
            expected="off",
            fix="remove compile",
        )


def options_have_effect(
    contract: Contract, _data: TableData, written: frozenset[str]
) -> Iterator[Problem]:
    """What is said of the metrics of a ranking is said in one."""
    name = contract.metric.name
    task = METRICS[name].task if name in METRICS else contract.task
    for key, metrics in _OPTIONS.items():
        path = f"metric.{key}"
        if path in written and task not in ("auto", "ranking"):
            yield Problem(
                f"{key} is for {', '.join(metrics)}",
                path=path,
                found=f"a {task}" if name == "auto" else name,
                expected=f"{key} only in a ranking",
                fix=f"remove {key}",
            )


def is_ranking(contract: Contract, data: TableData) -> bool:
    """Is a ranking asked for, also by `auto`?"""
    return contract.task == "ranking" or (contract.task == "auto" and bool(data.query))


RANKING_RULES = (
    query_is_named,
    classes_are_not_ranked,
    queries_stay_whole,
    model_ranks,
    queries_are_not_compiled,
    options_have_effect,
)
"""All of them, for the rules of a table."""
