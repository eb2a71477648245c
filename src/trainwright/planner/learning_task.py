"""What a family must know of the task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainwright.contract.document import Contract
from trainwright.data.read_table import DataFacts
from trainwright.model.family import LearningTask
from trainwright.planner.kinds.planner_of import planner_of


def learning_task(contract: Contract, facts: DataFacts) -> LearningTask:
    """Task of a contract whose task and metric are resolved."""
    return LearningTask(
        task=contract.task,
        metric=contract.metric.name,
        classes=len(facts.target.classes),
        has_texts=any(column.kind == "text" for column in facts.columns),
        columns=planner_of(contract, facts).kinds_of_features(),
        quantiles=contract.metric.quantiles,
        is_packed=contract.data.is_packed,
        targets=facts.target.targets,
        fuses_head=contract.training.memory.head_loss == "fused",
    )


SEVERAL_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "regression": ("r2", "the targets count alike, whatever their units"),
        "multilabel": ("average_precision", "each label is ranked by itself"),
    }
)
"""The usual metric of several targets, by their task, and why."""


def several_task(kind: str) -> tuple[str, str]:
    """The task of several targets of a kind, and why."""
    if kind == "labels":
        return "multilabel", "a row has or has not each label"
    return "regression", "the targets are numbers"
