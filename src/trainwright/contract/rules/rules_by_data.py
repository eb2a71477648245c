"""The rules of each kind of data, which see its own section."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, final

from trainwright.contract.document import Contract
from trainwright.contract.rules.image_rules import IMAGE_RULES
from trainwright.contract.rules.table_rules import TABLE_RULES
from trainwright.contract.rules.token_rules import TOKEN_RULES
from trainwright.contract.sections.data.data import TableData
from trainwright.contract.sections.data.data_base import Feeding
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import Problem

S = TypeVar("S", bound=Feeding)
SectionRule: TypeAlias = Callable[[Contract, S, frozenset[str]], Iterator[Problem]]


@final
@dataclass(frozen=True, slots=True)
class SectionRules(Generic[S]):
    """The rules of one kind of data."""

    section: type[S]
    rules: tuple[SectionRule[S], ...]

    def problems(self, contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
        """What they have against a contract; nothing against one of another kind of data."""
        data = contract.data
        if isinstance(data, self.section):
            for rule in self.rules:
                yield from rule(contract, data, written)


RULES_BY_DATA: tuple[SectionRules[Any], ...] = (
    SectionRules(TableData, TABLE_RULES),
    SectionRules(ImageData, IMAGE_RULES),
    SectionRules(TokenData, TOKEN_RULES),
)
"""A line for each kind of data that has rules of its own."""


def data_section_rules(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The rules of the contract's kind of data."""
    for one in RULES_BY_DATA:
        yield from one.problems(contract, written)
