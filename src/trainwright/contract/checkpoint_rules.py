"""Rules on the checkpoints of a run."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.metric_rules import task_of, watched_problems
from trainwright.core.errors import Problem


def check_ranking(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Checkpoints are ranked by something that is measured on the validation rows."""
    ranked_by = contract.training.checkpointing.rank_by
    if ranked_by != "auto":
        path = "training.checkpointing.rank_by"
        yield from watched_problems(ranked_by, path, task_of(contract))
