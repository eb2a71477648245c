"""Chat templates: messages as a text, with the spans of the answers; a tokenizer's own in
jinja's sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn, final

from trainwright.contract.sections.data.chats import Role
from trainwright.core.deadline import Overrun, call_within
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.core.files import Json
from trainwright.core.process import is_code_allowed
from trainwright.data.chats.chat_messages import Chat, Message, UnreadableMessage

_PATH = "data.template"
_SECONDS = 5.0
_MOST_BYTES = 2**20
_NAMES: Mapping[Role, str] = MappingProxyType({"function_call": "assistant", "observation": "tool"})
_FIX = "choose data.template: chatml, llama3 or plain"
_PROBE = (Message("user", "question"), Message("assistant", "answer"))
NO_ANSWER = -1


@final
@dataclass(frozen=True, slots=True)
class JinjaTemplate:
    """The program, and the names of the special tokens that it may write."""

    source: str
    begin: str = ""
    end_of_text: str = ""

    def render(self, messages: Sequence[Message], tools: str, *, answering: bool) -> str:
        """The text of messages; `answering`: up to where the assistant answers.

        Raises:
            Mistake: code is not allowed. UnreadableMessage: the program refuses the messages, or
                wants more than the sandbox gives.
        """
        if not is_code_allowed():
            raise _not_allowed()
        values: dict[str, Any] = {
            "messages": [
                {"role": _NAMES.get(one.role, one.role), "content": one.content} for one in messages
            ],
            "tools": _tools(tools),
            "add_generation_prompt": answering,
            "bos_token": self.begin,
            "eos_token": self.end_of_text,
        }
        from jinja2.exceptions import TemplateError

        try:
            return call_within(_SECONDS, lambda: str(_compiled(self.source).render(values)))
        except Overrun:
            raise _refused(f"it took more than {_SECONDS:.0f} seconds") from None
        except (TemplateError, TypeError, ValueError, KeyError, OverflowError) as error:
            raise _refused(f"{type(error).__name__}: {error}") from error

    def pieces(self, chat: Chat, answers: Sequence[Role]) -> Iterator[tuple[str, int]]:
        """Pieces of the text up to the last answer, each with the message that it answers with, or
        -1. White space behind an answer belongs to the next message.

        Raises:
            As `render`.
        """
        text = ""
        for at, message in enumerate(chat.messages):
            if not message.is_answer(answers):
                continue
            before = self.render(chat.messages[:at], chat.tools, answering=True)
            after = self.render(chat.messages[: at + 1], chat.tools, answering=False).rstrip()
            if not before.startswith(text) or not after.startswith(before):
                raise _refused("it writes earlier messages otherwise once more follow")
            yield before[len(text) :], -1
            yield after[len(before) :], at
            text = after

    def prompt(self, chat: Chat) -> str:
        """The text up to where the assistant answers."""
        return self.render(chat.messages, chat.tools, answering=True)

    def end(self) -> str:
        """What it writes behind an answer.

        Raises:
            Mistake: nothing, or as `render`.
        """
        try:
            text = self.render(_PROBE, "", answering=False)
        except UnreadableMessage as wrong:
            raise Mistake(wrong.problem(_PATH, Place(""))) from wrong
        _, answer, end = text.rstrip().rpartition(_PROBE[1].content)
        if not answer or not end:
            raise Mistake(
                Problem("the template does not end an answer", _PATH, expected="a mark", fix=_FIX)
            )
        return end

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"source": self.source, "begin": self.begin, "end_of_text": self.end_of_text}

    @classmethod
    def from_json(cls, json: Json) -> JinjaTemplate:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError: invalid content.
        """
        return cls(*(str(json[name]) for name in ("source", "begin", "end_of_text")))


def read_jinja(tokenizer: Path, written: str) -> JinjaTemplate:
    """The template beside a `tokenizer.json`.

    Raises:
        DataMistake: there is none, or it is no jinja. Mistake: code is not allowed.
    """
    if not is_code_allowed():
        raise _not_allowed()
    config, beside = tokenizer.with_name("tokenizer_config.json"), "chat_template.jinja"
    about = _read_config(config)
    own = tokenizer.with_name(beside)
    source = own.read_text("utf-8")[:_MOST_BYTES] if own.is_file() else about.get("chat_template")
    if isinstance(source, list):
        named = {one.get("name"): one.get("template") for one in source if isinstance(one, dict)}
        source = named.get("default")
    if not isinstance(source, str) or not source:
        raise DataMistake(
            Problem(
                "the tokenizer has no chat template",
                path=_PATH,
                found=f"none in {beside} or {config.name}",
                fix=_FIX,
                place=Place(written),
            )
        )
    template = JinjaTemplate(source, _token(about, "bos_token"), _token(about, "eos_token"))
    template.end()
    return template


def _read_config(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    except (OSError, ValueError, RecursionError):
        found = {}
    return found if isinstance(found, dict) else {}


def _token(about: Mapping[str, Any], name: str) -> str:
    found = about.get(name)
    content = found.get("content") if isinstance(found, dict) else found
    return content if isinstance(content, str) else ""


def _tools(text: str) -> Json:
    """Descriptions of tools as templates read them."""
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return [text]


@lru_cache(maxsize=4)
def _compiled(source: str) -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise
    environment.filters["tojson"] = _to_json
    return environment.from_string(source)


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _to_json(value: Json, indent: int | None = None, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refused(found: str) -> UnreadableMessage:
    return UnreadableMessage(
        "the template of the tokenizer cannot write this chat",
        found,
        "a template that adds to the text with each message",
        _FIX,
    )


def _not_allowed() -> Mistake:
    return Mistake(
        Problem(
            "the template of a tokenizer is a program, and this command may run none",
            path=_PATH,
            found="template: tokenizer",
            expected="--allow-code, if you trust the files of the tokenizer",
            fix=f"{_FIX}, or add --allow-code",
        )
    )


class Piece(NamedTuple):
    """A piece of the text of a chat, and the number of the message that it answers with; or
    `NO_ANSWER`. No token reaches from one piece into the next."""

    text: str
    answer: int = NO_ANSWER


@final
@dataclass(frozen=True, slots=True)
class Marks:
    """What stands in a text around its messages: `begin` before all, `head` before each with the
    name of its writer, `end` behind it, and `between` before the next. `special` are tokens of
    their own; `names` and `wraps` say how roles and their messages are written."""

    head: str
    end: str
    between: str
    special: tuple[str, ...]
    begin: str = ""
    names: Mapping[Role, str] = field(default_factory=dict)
    wraps: Mapping[Role, str] = field(default_factory=dict)

    def head_of(self, role: Role) -> str:
        """Before a message of this role."""
        return self.head.format(self.names.get(role, role))

    def body_of(self, message: Message) -> str:
        """A message."""
        return self.wraps.get(message.role, "{}").replace("{}", message.content)


MARKS: Mapping[str, Marks] = MappingProxyType(
    {
        # The template of Qwen2.5 (arXiv:2412.15115).
        "chatml": Marks(
            head="<|im_start|>{}\n",
            end="<|im_end|>",
            between="\n",
            special=("<|im_start|>", "<|im_end|>"),
            names={"function_call": "assistant", "observation": "user"},
            wraps={
                "function_call": "<tool_call>\n{}\n</tool_call>",
                "observation": "<tool_response>\n{}\n</tool_response>",
            },
        ),
        # That of Llama 3 (arXiv:2407.21783, section 4.1).
        "llama3": Marks(
            head="<|start_header_id|>{}<|end_header_id|>\n\n",
            end="<|eot_id|>",
            between="",
            special=("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
            begin="<|begin_of_text|>",
            names={"function_call": "assistant", "observation": "ipython"},
        ),
        "plain": Marks(
            head="### {}\n",
            end="\x1e",
            between="\n\n",
            special=("\x1e",),
            names={"function_call": "assistant"},
        ),
    }
)
"""Templates of our own, by name."""


@final
@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A template of our own by its name, or `tokenizer` with its program; and the roles of
    answers."""

    name: str
    answers: tuple[Role, ...]
    program: JinjaTemplate | Literal["none"] = "none"

    @property
    def special(self) -> tuple[str, ...]:
        """Marks that are tokens of their own."""
        return MARKS[self.name].special if self.program == "none" else ()

    def end(self) -> str:
        """What ends an answer.

        Raises:
            Mistake: as `JinjaTemplate.render`.
        """
        return MARKS[self.name].end if isinstance(self.program, str) else self.program.end()

    def pieces(self, chat: Chat) -> list[Piece]:
        """The text of a chat up to its last answer.

        Raises:
            UnreadableMessage: a message holds a mark of the template, or the program refuses it.
        """
        messages = with_tools(chat)[: _shown(chat, self.answers)]
        if not isinstance(self.program, str):
            return [Piece(*one) for one in self.program.pieces(chat, self.answers)]
        marks, before, found = MARKS[self.name], MARKS[self.name].begin, []
        first = len(messages) - chat.count_to_last(self.answers)
        for at, message in enumerate(messages):
            _check_marks(message, marks.special)
            is_answer = message.is_answer(self.answers)
            found += [
                Piece(before + marks.head_of(message.role)),
                Piece(marks.body_of(message) + marks.end, at - first if is_answer else NO_ANSWER),
            ]
            before = marks.between
        return found

    def prompt(self, chat: Chat) -> list[str]:
        """The text of a chat up to where the assistant answers.

        Raises:
            UnreadableMessage: as `pieces`.
        """
        if not isinstance(self.program, str):
            return [self.program.prompt(chat)]
        marks = MARKS[self.name]
        before, found = marks.begin, []
        for message in with_tools(chat):
            _check_marks(message, marks.special)
            head = before + marks.head_of(message.role)
            found += [head, marks.body_of(message) + marks.end]
            before = marks.between
        return [*found, before + marks.head_of("assistant")]

    def to_json(self) -> Json:
        """What `from_json` reads."""
        program = {} if isinstance(self.program, str) else {"program": self.program.to_json()}
        return {"name": self.name, "answers": list(self.answers), **program}

    @classmethod
    def from_json(cls, json: Json) -> ChatTemplate:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        name, answers = str(json["name"]), tuple(json["answers"])
        if "program" in json:
            return cls(name, answers, JinjaTemplate.from_json(json["program"]))
        if name not in MARKS:
            raise ValueError(f"a template called {name!r}")
        return cls(name, answers)


def with_tools(chat: Chat) -> tuple[Message, ...]:
    """The messages, with the tools in the system message."""
    if not chat.tools:
        return chat.messages
    first, *others = chat.messages
    said = f"Tools:\n{chat.tools}"
    if first.role != "system":
        return (Message("system", said), *chat.messages)
    return (Message("system", f"{first.content}\n\n{said}"), *others)


def _shown(chat: Chat, answers: Sequence[Role]) -> int:
    return len(with_tools(chat)) - len(chat.messages) + chat.count_to_last(answers)


def _check_marks(message: Message, special: Sequence[str]) -> None:
    for mark in special:
        if mark in message.content:
            raise UnreadableMessage(
                "a message holds a mark of the template",
                mark.encode("unicode_escape").decode(),
                "messages without it, so that none can end its turn",
                "remove it from the message, or choose another data.template",
            )
