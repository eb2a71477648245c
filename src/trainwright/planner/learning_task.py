"""What a family must know of the task."""

from __future__ import annotations

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
    )
