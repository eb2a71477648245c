"""Rules on text pairs."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.image_rules import (
    columns_named_twice,
    metrics_are_of_its_side,
    step_is_whole,
    tokens_are_those_of_one,
)
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.core.errors import Problem


def texts_are_apart(
    _contract: Contract, data: TextPairData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Query, passage, group and negatives are columns of their own."""
    named = [("query", data.query), ("passage", data.passage), ("group", data.group)]
    named += [(f"negatives.{at}", name) for at, name in enumerate(data.negatives)]
    yield from columns_named_twice(named)


TEXT_PAIR_RULES = (
    texts_are_apart,
    metrics_are_of_its_side,
    step_is_whole,
    tokens_are_those_of_one,
)
"""All of them, for the rules of each kind of data."""
