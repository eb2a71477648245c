"""The rules of each kind of data, which see its own section."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem
from trainwright.core.lazy_table import LazyTable

SectionRule: TypeAlias = Callable[[Contract, Any, frozenset[str]], Iterator[Problem]]
"""What it has against a contract, whose `data` is its argument too."""

_HERE = "trainwright.contract.rules.data"

RULES_BY_DATA: Mapping[str, tuple[SectionRule, ...]] = LazyTable(
    {
        "table": f"{_HERE}.table_rules:TABLE_RULES",
        "images": f"{_HERE}.image_rules:IMAGE_RULES",
        "tokens": f"{_HERE}.token_rules:TOKEN_RULES",
        "chats": f"{_HERE}.chat_rules:CHAT_RULES",
        "preferences": f"{_HERE}.preference_rules:PREFERENCE_RULES",
        "series": f"{_HERE}.series_rules:SERIES_RULES",
        "pairs": f"{_HERE}.pair_rules:PAIR_RULES",
        "text_pairs": f"{_HERE}.text_pair_rules:TEXT_PAIR_RULES",
        "captions": f"{_HERE}.caption_rules:CAPTION_RULES",
    }
)
"""A line for each kind of data that has rules of its own."""


def data_section_rules(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The rules of the contract's kind of data."""
    for rule in RULES_BY_DATA.get(contract.data.kind, ()):
        yield from rule(contract, contract.data, written)
