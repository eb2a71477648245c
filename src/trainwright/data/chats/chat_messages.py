"""Messages of chats and pairs of answers, read from the rows of a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, final, get_args

import polars as pl

from trainwright.contract.sections.data.chats import ChatData, PreferenceData, Role
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.messages import nearest_option, quoted, some
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import SourceFile

ROLES: Mapping[str, Role] = MappingProxyType(
    {
        **{role: role for role in get_args(Role)},
        "human": "user",
        "gpt": "assistant",
        "tool": "observation",
    }
)
"""Roles by the words that stand for them."""

_MESSAGES = ("messages", "conversations")
_INSTRUCTION, _INPUT, _OUTPUT = "instruction", "input", "output"
_WEIGHT = "weight"
_SPELLINGS = (("role", "content"), ("from", "value"))
_MOST_PROBLEMS = 6
ANSWERS: tuple[Role, ...] = ("assistant", "function_call")


class Message(NamedTuple):
    """A message and its writer, whether it may be learned, and names of its other keys, which are
    not read."""

    role: Role
    content: str
    is_learned: bool = True
    unread: tuple[str, ...] = ()

    def is_answer(self, roles: Sequence[Role]) -> bool:
        """Is it learned, by a writer with one of these roles?"""
        return self.is_learned and self.role in roles


class Chat(NamedTuple):
    """Messages of a chat, the tools described to the assistant, and its row (0-based)."""

    messages: tuple[Message, ...]
    tools: str = ""
    row: int = 0

    def count_to_last(self, roles: Sequence[Role]) -> int:
        """Messages up to the last answer; 0 without one."""
        answers = [at for at, one in enumerate(self.messages, 1) if one.is_answer(roles)]
        return answers[-1] if answers else 0


class UnreadableMessage(ValueError):
    """What is wrong with a message: what was found, what was expected, and the fix."""

    def __init__(self, message: str, found: str, expected: str, fix: str) -> None:
        super().__init__(message)
        self.found, self.expected, self.fix = found, expected, fix

    def problem(self, path: str, place: Place) -> Problem:
        """As a problem of a row."""
        return Problem(str(self), path, self.found[:80], self.expected, self.fix, place)


@final
@dataclass(frozen=True, slots=True)
class ChatTable:
    """Chats of a table, and the other columns of its rows, by which they can be sliced."""

    chats: tuple[Chat, ...]
    columns: pl.DataFrame
    source: SourceFile


def read_chats(section: ChatData, folder: Path, path: str = "data.path") -> ChatTable:
    """The chats of a table relative to `folder`; `path` is the contract path to blame.

    Raises:
        DataMistake: the table cannot be read, lacks a column, or has rows that are no chats with an
            answer; the first few are named.
    """
    reading = section.reading.model_copy(update={"nested": "text"})
    source = read_source(section.path, folder, path, reading)
    columns = _columns_of(section, source)
    chats: list[Chat] = []
    problems: list[Problem] = []
    for row, cells in enumerate(source.frame.select(columns.names).iter_rows(named=True)):
        try:
            chats.append(columns.chat(cells, row))
            _check_answer(chats[-1], section.loss_on)
        except UnreadableMessage as wrong:
            problems.append(wrong.problem(columns.path, source.place(row)))
            if len(problems) == _MOST_PROBLEMS:
                break
    if problems:
        raise DataMistake(problems)
    return ChatTable(tuple(chats), source.frame.drop(columns.names), source)


@final
@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns that chats are read from: of messages, or `instruction` to `output` if that is
    empty."""

    messages: str
    system: str
    tools: str
    has_input: bool

    @property
    def path(self) -> str:
        """What is to blame for a row."""
        return "data.messages" if self.messages else "data.path"

    @property
    def names(self) -> list[str]:
        """All of them."""
        own = [self.messages] if self.messages else [_INSTRUCTION, _OUTPUT]
        own += [_INPUT] if self.has_input and not self.messages else []
        return [*own, *filter(None, (self.system, self.tools))]

    def chat(self, cells: Mapping[str, str | None], row: int) -> Chat:
        """The chat of a row."""
        if self.messages:
            messages = parse_messages(cells[self.messages] or "")
        else:
            messages = _of_instruction(cells)
        system = cells[self.system] if self.system else ""
        if system and (not messages or messages[0].role != "system"):
            messages = (Message("system", system), *messages)
        return Chat(messages, (cells[self.tools] if self.tools else "") or "", row)


def _of_instruction(cells: Mapping[str, str | None]) -> tuple[Message, ...]:
    asked = [cells.get(name) or "" for name in (_INSTRUCTION, _INPUT)]
    answer = cells[_OUTPUT] or ""
    question = "\n\n".join(filter(None, asked))
    found = [Message("user", question)] if question else []
    return (*found, Message("assistant", answer)) if answer else tuple(found)


def parse_messages(text: str) -> tuple[Message, ...]:
    """The messages of a list in JSON.

    Raises:
        UnreadableMessage: it is no list of messages with a known role and a text.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not found:
        raise UnreadableMessage(
            "a row has no list of messages",
            text,
            '[{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]',
            "name the column of messages in data.messages, or repair the row",
        )
    return tuple(_message(one, at) for at, one in enumerate(found, 1))


def _message(given: Json, number: int) -> Message:
    fields = given if isinstance(given, dict) else {}
    names = next((pair for pair in _SPELLINGS if pair[0] in fields), _SPELLINGS[0])
    role, content = (fields.get(name) for name in names)
    if not isinstance(role, str) or role not in ROLES:
        raise UnreadableMessage(
            f"message {number} has an unknown role",
            str(given if role is None else role),
            f"one of: {', '.join(ROLES)}",
            "correct the role, or remove the row",
        )
    if not isinstance(content, str) or not content.strip():
        raise UnreadableMessage(
            f"message {number} has no text",
            json.dumps(given, ensure_ascii=False),
            f"a text under {names[1]!r}",
            "write the text of the message, a call of a function as role function_call, or remove "
            "the row",
        )
    weight = fields.get(_WEIGHT)
    if weight not in (None, 0, 1):
        raise UnreadableMessage(
            f"message {number} has a weight of its own",
            str(weight),
            "0, so that it is not learned, or 1",
            "change it to 0 or 1, or remove it",
        )
    unread = (name for name in fields if name not in (*names, _WEIGHT) and fields[name])
    return Message(ROLES[role], content, weight != 0, tuple(unread))


def describe_unread(chats: Sequence[Chat]) -> tuple[str, ...]:
    """Keys of the messages that hold something and are not read, with the number of messages."""
    messages = (one for chat in chats for one in chat.messages)
    counts = Counter(name for one in messages for name in one.unread)
    named = ", ".join(f"{name} ({many(n, 'message')})" for name, n in counts.most_common(12))
    return (f"only the text of a message is read, not {named}",) if counts else ()


def _check_answer(chat: Chat, roles: Sequence[Role]) -> None:
    if not chat.count_to_last(roles):
        raise UnreadableMessage(
            "a chat has no answer",
            ", ".join(message.role for message in chat.messages) or "no message",
            f"a message by {' or '.join(roles)} whose weight is not 0",
            "remove the row, or write its role to data.loss_on",
        )


def _columns_of(section: ChatData, source: SourceFile) -> _Columns:
    """Where the chats of a table stand."""
    names = source.frame.columns
    named = ("messages", "system", "tools")
    wrong = [
        no_column(f"data.{field}", name, source)
        for field in named
        if (name := getattr(section, field)) and name not in names
    ]
    if wrong:
        raise DataMistake(wrong)
    messages = section.messages or next((one for one in _MESSAGES if one in names), "")
    if not messages and not {_INSTRUCTION, _OUTPUT} <= set(names):
        raise DataMistake(
            Problem(
                "the table has no column of messages",
                path="data.messages",
                found=some(names, 12),
                expected="messages, conversations, or instruction and output",
                fix="name the column in data.messages",
                place=source.place(),
            )
        )
    return _Columns(messages, section.system, section.tools, _INPUT in names)


def no_column(path: str, name: str, source: SourceFile) -> Problem:
    """The problem of a table without a column that the contract names."""
    names = source.frame.columns
    near = nearest_option(name, names)
    return Problem(
        f"there is no column {name!r}",
        path=path,
        found=name,
        expected=f"one of: {some(names, 12)}",
        fix=f"did you mean {near!r}?" if near else f"name one of {quoted(names)}",
        place=source.place(),
    )


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
    names = _columns_of_pairs(section, source)
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


def _columns_of_pairs(section: PreferenceData, source: SourceFile) -> list[str]:
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
    pair = [
        tuple(one._replace(is_learned=True) for one in (*asked, *_messages(answer, "assistant")))
        for answer in (chosen, rejected)
    ]
    texts = [[one[:2] for one in messages] for messages in pair]
    for messages in pair:
        if len(messages) < 2 or messages[-1].role not in ANSWERS:
            raise UnreadableMessage(
                "a pair lacks a prompt or an answer",
                ", ".join(one.role for one in messages) or "nothing",
                "a prompt, a chosen and a rejected answer",
                "write both answers and what they answer to, or remove the row",
            )
    if texts[0][:-1] != texts[1][:-1]:
        raise UnreadableMessage(
            "the answers of a pair follow other messages",
            pair[1][-2].content,
            pair[0][-2].content[:80],
            "compare answers to the same prompt, or remove the row",
        )
    if texts[0][-1] == texts[1][-1]:
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
