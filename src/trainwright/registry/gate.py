"""The gate that a model passes before it is promoted: clauses, each met, missed or undecided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from trainwright.evaluation.clause import Status

FEWEST_ROWS = 100
"""Judged rows below which nothing is decided."""

Decision = Literal["promoted", "refused", "undecided"]


@final
@dataclass(frozen=True, slots=True)
class GateClause:
    """What was asked of a model, whether it does it, and by which figures."""

    name: str
    status: Status
    figures: str


def decide_gate(clauses: Sequence[GateClause]) -> Decision:
    """Refused if a clause is missed, undecided if one is undecided, promoted if all are met."""
    status = {clause.status for clause in clauses}
    if "missed" in status:
        return "refused"
    return "undecided" if "undecided" in status else "promoted"
