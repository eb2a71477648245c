"""Sizes that no machine has: a contract with one would take memory or time without end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pydantic import BaseModel

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem
from trainwright.core.limits import MOST_BATCH, MOST_EPOCHS, MOST_LAYERS, MOST_TREES, MOST_WIDTH

MOST: Mapping[str, int] = MappingProxyType(
    {
        "training.num_epochs": MOST_EPOCHS,
        "training.batch_size": MOST_BATCH,
        "training.effective_batch_size": MOST_BATCH,
        "training.gradient_accumulation_steps": MOST_BATCH,
        "model.max_trees": MOST_TREES,
    }
)
"""The largest value of each key."""


def sizes_are_possible(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """No count is beyond what any machine could do."""
    for path, most in MOST.items():
        value = _at(contract, path)
        if isinstance(value, int) and value > most:
            yield _too_large(path, value, most)
    hidden = _at(contract, "model.hidden")
    if isinstance(hidden, tuple):
        if len(hidden) > MOST_LAYERS:
            yield _too_large("model.hidden", len(hidden), MOST_LAYERS, "layers")
        elif hidden and max(hidden) > MOST_WIDTH:
            yield _too_large("model.hidden", max(hidden), MOST_WIDTH, "units in a layer")


def _at(contract: Contract, path: str) -> object:
    value: object = contract
    for part in path.split("."):
        value = getattr(value, part, None) if isinstance(value, BaseModel) else None
    return value


def _too_large(path: str, found: int, most: int, unit: str = "") -> Problem:
    return Problem(
        "the value is larger than any machine can do",
        path=path,
        found=f"{found:,} {unit}".strip(),
        expected=f"at most {most:,} {unit}".strip(),
        fix="write a smaller one",
    )
