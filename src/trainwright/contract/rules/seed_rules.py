"""Rules on the seeds of a contract."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.core.errors import Problem


def check_seeds(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """Folds are several splits, and have a spread of their own."""
    if contract.training.seeds > 1 and fold_count(contract.data):
        yield Problem(
            "several seeds are trained on one split, and folds are several",
            path="training.seeds",
            found=f"{contract.training.seeds}, beside data.split.folds",
            expected="one of the two",
            fix="remove training.seeds, or data.split.folds",
        )
