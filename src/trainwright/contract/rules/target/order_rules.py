"""Rules on the order of classes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.metric import METRICS_OF_RANKS
from trainwright.contract.sections.training.objective import Ordinal
from trainwright.core.errors import Problem

_FIRST = "name the classes from the lowest to the highest in data.order"


def order_names_classes(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """An order has two classes or more, each once, and a task of classes."""
    order = contract.data.class_order
    if not order:
        return
    if len(order) < 2 or len(set(order)) < len(order):
        yield Problem(
            "an order names at least two classes, each once",
            path="data.order",
            found=f"[{', '.join(order)}]",
            expected="the classes from the lowest to the highest",
            fix=f"{_FIRST}, each once",
        )
    if contract.task in ("regression", "ranking", "multilabel"):
        yield Problem(
            "numbers have an order of their own",
            path="data.order",
            found=f"data.order beside task: {contract.task}",
            expected="ordered classes, or numbers",
            fix="remove data.order, or write task: classification",
        )


def ranks_need_an_order(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Metrics and the loss of ranks are those of ordered classes."""
    if contract.data.class_order or "classification" not in contract.data.possible_tasks:
        return
    for path, name in contract.named_metrics:
        if name in METRICS_OF_RANKS:
            yield Problem(
                f"{name} is of classes with an order",
                path=path,
                found=name,
                expected="data.order, or a metric of any classes",
                fix=f"{_FIRST}, or write here f1_macro",
            )
    if isinstance(contract.training.loss, Ordinal) and contract.model.is_loop_trained:
        yield Problem(
            "the ordinal loss is of classes with an order",
            path="training.loss.name",
            found="ordinal",
            expected="data.order, or cross_entropy",
            fix=f"{_FIRST}, or remove training.loss",
        )


ORDER_RULES = (order_names_classes, ranks_need_an_order)
"""All of them, for the list of rules."""
