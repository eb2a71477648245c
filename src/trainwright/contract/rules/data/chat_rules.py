"""Rules on chats."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.token_rules import (
    packing_has_effect,
    padding_changes_widths,
    padding_has_effect,
    vocabulary_is_whole,
)
from trainwright.contract.sections.data.chats import ChatData
from trainwright.core.errors import Problem


def template_has_program(
    _contract: Contract, data: ChatData, _written: frozenset[str]
) -> Iterator[Problem]:
    """A tokenizer's own template needs the tokenizer."""
    if data.template == "tokenizer" and not data.tokenizer:
        yield Problem(
            "the template is that of a tokenizer, and none is named",
            path="data.template",
            found="template: tokenizer",
            expected="vocabulary: tokenizer and its file in data.tokenizer beside it",
            fix="write template: chatml, or name the tokenizer",
        )


def someone_answers(
    _contract: Contract, data: ChatData, _written: frozenset[str]
) -> Iterator[Problem]:
    """There is a role to learn."""
    if not data.loss_on:
        yield Problem(
            "no role is learned",
            path="data.loss_on",
            found="[]",
            expected="at least one role",
            fix="write data.loss_on: [assistant]",
        )


CHAT_RULES = (
    vocabulary_is_whole,
    packing_has_effect,
    padding_has_effect,
    padding_changes_widths,
    template_has_program,
    someone_answers,
)
"""All of them, for the list of rules."""
