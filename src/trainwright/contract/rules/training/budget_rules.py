"""Rules about the budget."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def cost_has_a_price(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A limit on money needs the price of time."""
    if contract.budget.cost != "unlimited" and contract.budget.price_per_hour == 0:
        yield Problem(
            "budget.cost needs budget.price_per_hour",
            path="budget.cost",
            expected="price_per_hour above 0 beside cost",
            fix="add for example: price_per_hour: 2.5",
        )
