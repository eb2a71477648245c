"""Pairs of answers, read from the rows of a table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.chats import PreferenceData, Role
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.chats.chat_messages import (
    Chat,
    ChatTable,
    Message,
    UnreadableMessage,
    no_column,
    parse_messages,
)
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import SourceFile

ANSWERS: tuple[Role, ...] = ("assistant", "function_call")
_MOST_PROBLEMS = 6


@final
@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs of a table as chats, that of the chosen answer before that of the rejected one; the
    other columns of the rows."""

    chats: tuple[Chat, ...]
    columns: pl.DataFrame
    source: SourceFile

    @property
    def chosen(self) -> tuple[Chat, ...]:
        """A chat for each pair."""
        return self.chats[::2]

    @property
    def as_chats(self) -> ChatTable:
        """Every answer with its prompt."""
        return ChatTable(self.chats, self.columns, self.source)


def read_preferred_pairs(section: PreferenceData, folder: Path) -> PairTable:
    """The pairs of a table relative to `folder`.

    Raises:
        DataMistake: the table cannot be read, lacks a column, or has rows that are no pairs; the
            first few are named.
    """
    reading = section.reading.model_copy(update={"nested": "text"})
    source = read_source(section.path, folder, reading=reading)
    names = _columns_of(section, source)
    chats: list[Chat] = []
    problems: list[Problem] = []
    for row, cells in enumerate(source.frame.select(names).iter_rows()):
        try:
            chats += _pair(cells[0], cells[1], cells[2] if len(cells) > 2 else None, row)
        except UnreadableMessage as wrong:
            problems.append(wrong.problem("data.path", source.place(row)))
            if len(problems) == _MOST_PROBLEMS:
                break
    if problems:
        raise DataMistake(problems)
    return PairTable(tuple(chats), source.frame.drop(names), source)


def _columns_of(section: PreferenceData, source: SourceFile) -> list[str]:
    """The columns of the chosen and the rejected answer, and that of the prompt if there is one."""
    names = [section.chosen, section.rejected]
    fields = ["chosen", "rejected"]
    has_prompt = section.prompt in source.frame.columns
    if has_prompt or "prompt" in section.model_fields_set:
        names.append(section.prompt)
        fields.append("prompt")
    wrong = [
        no_column(f"data.{field}", name, source)
        for field, name in zip(fields, names, strict=True)
        if name not in source.frame.columns
    ]
    if wrong:
        raise DataMistake(wrong)
    return names


def _pair(chosen: str | None, rejected: str | None, prompt: str | None, row: int) -> list[Chat]:
    asked = _messages(prompt, "user")
    pair = [(*asked, *_messages(answer, "assistant")) for answer in (chosen, rejected)]
    for messages in pair:
        if len(messages) < 2 or messages[-1].role not in ANSWERS:
            raise UnreadableMessage(
                "a pair lacks a prompt or an answer",
                ", ".join(one.role for one in messages) or "nothing",
                "a prompt, a chosen and a rejected answer",
                "write both answers and what they answer to, or remove the row",
            )
    if pair[0][:-1] != pair[1][:-1]:
        raise UnreadableMessage(
            "the answers of a pair follow other messages",
            pair[1][-2].content,
            pair[0][-2].content[:80],
            "compare answers to the same prompt, or remove the row",
        )
    if pair[0][-1] == pair[1][-1]:
        raise UnreadableMessage(
            "the answers of a pair are the same",
            pair[0][-1].content,
            "two different answers",
            "remove the row",
        )
    return [Chat(messages, "", row) for messages in pair]


def _messages(cell: str | None, role: Role) -> tuple[Message, ...]:
    """Messages of a cell: a list of them in JSON, or the text of one."""
    text = cell or ""
    if text.lstrip().startswith("["):
        try:
            is_list = isinstance(json.loads(text), list)
        except (ValueError, RecursionError):
            is_list = False
        if is_list:
            return parse_messages(text)
    return (Message(role, text),) if text.strip() else ()
