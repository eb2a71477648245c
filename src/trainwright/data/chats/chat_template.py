"""Chat templates: messages as a text, with the spans of the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple, final

from trainwright.contract.sections.data.chats import Role
from trainwright.core.files import Json
from trainwright.data.chats.chat_messages import Chat, Message, UnreadableMessage
from trainwright.data.chats.jinja_template import JinjaTemplate

NO_ANSWER = -1


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
            is_answer = message.role in self.answers
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
