"""Chats and pairs of answers as tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import NOWHERE, DataMistake, Mistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Inputs, Integers, Part
from trainwright.data.base.token_inputs import PreferenceInputs, TokenInputs, Tokens, token_dtype
from trainwright.data.chats.chat_messages import Chat, ChatTable, UnreadableMessage, parse_messages
from trainwright.data.chats.chat_template import NO_ANSWER, ChatTemplate, Piece
from trainwright.data.chats.hub_template import write_jinja
from trainwright.data.encoders.encoding import InputColumn
from trainwright.data.encoders.vocabulary import TextVocabulary, TokenEncoding

_AT_ONCE = 2**14
_MOST_PROBLEMS = 6


class EncodedChats(NamedTuple):
    """Tokens of chats [T], where each chat begins [C], whether a token is one of an answer [T], and
    the answers [A]: the chat of each, its message, and its half-open range in the tokens."""

    tokens: Tokens
    begins: Integers
    mask: npt.NDArray[np.bool_]
    chats: Integers
    messages: Integers
    starts: Integers
    stops: Integers


@final
@dataclass(frozen=True, slots=True)
class ChatEncoding(TokenEncoding):
    """The vocabulary and the template of chats."""

    words: TextVocabulary
    template: ChatTemplate

    modality: ClassVar[str] = "chats"
    has_turns: ClassVar[bool] = True
    profiled_rows: ClassVar[int] = TextVocabulary.profiled_rows

    @property
    def vocabulary(self) -> TextVocabulary:
        """What a token is."""
        return self.words

    @property
    def turn_end(self) -> str:
        """As the template ends an answer."""
        return self.template.end()

    @property
    def hub_template(self) -> str:
        """See `TokenEncoding`."""
        return write_jinja(self.template)

    def ask(self, messages: str, tools: str = "", /) -> list[str]:
        """As the template writes the messages, up to the answer of the assistant."""
        try:
            return self.template.prompt(Chat(parse_messages(messages), tools))
        except UnreadableMessage as wrong:
            raise Mistake(wrong.problem("--chat", NOWHERE)) from wrong

    def encode_chats(self, chats: Sequence[Sequence[Piece]]) -> EncodedChats:
        """Chats in pieces as tokens, none of which reaches from one piece into the next."""
        pieces = [piece for chat in chats for piece in chat]
        encoded: list[Tokens] = []
        for at in range(0, len(pieces), _AT_ONCE):
            encoded += self.words.encode_each([one.text for one in pieces[at : at + _AT_ONCE]])
        lengths = np.array([len(one) for one in encoded], dtype=np.int64)
        ends = np.cumsum(lengths)
        begins = ends - lengths
        numbers = np.array([one.answer for one in pieces], dtype=np.int64)
        of_chat = np.repeat(np.arange(len(chats)), [len(chat) for chat in chats])
        learned = np.flatnonzero(numbers != NO_ANSWER)
        firsts = np.flatnonzero(np.diff(of_chat, prepend=-1))
        is_answer = np.repeat(numbers != NO_ANSWER, lengths)
        tokens: Tokens = np.concatenate(encoded).astype(token_dtype(self.words.size), copy=False)
        return EncodedChats(
            tokens,
            begins[firsts],
            is_answer,
            of_chat[learned],
            numbers[learned],
            begins[learned],
            ends[learned],
        )

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Lengths of the chats, and the share of unknown characters."""
        return self.words.profile(part)

    def signature(self, _profile: Mapping[str, Json], /) -> list[InputColumn]:
        """A list of messages."""
        return [InputColumn("messages", f"chat of {self.words.kind}")]

    def trial_inputs(self) -> list[Inputs]:
        """As `TextVocabulary.trial_inputs`."""
        return self.words.trial_inputs()

    def describe(self, rows: int) -> str:
        """Chats, and how many different tokens they consist of."""
        return f"{many(rows, 'chat')} of {self.words.size:,} different {self.words.kind}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": self.modality,
            "vocabulary": self.words.to_json(),
            "template": self.template.to_json(),
        }

    @classmethod
    def from_json(cls, json: Json) -> ChatEncoding:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        words = TextVocabulary.from_json(json["vocabulary"])
        return cls(words, ChatTemplate.from_json(json["template"]))


def render_chats(table: ChatTable, template: ChatTemplate) -> list[list[Piece]]:
    """Every chat in pieces.

    Raises:
        DataMistake: the template cannot write one; the first few are named. Mistake: it is a
            program, and code is not allowed.
    """
    found: list[list[Piece]] = []
    problems: list[Problem] = []
    for chat in table.chats:
        try:
            found.append(template.pieces(chat))
        except UnreadableMessage as wrong:
            problems.append(wrong.problem("data.template", table.source.place(chat.row)))
            if len(problems) == _MOST_PROBLEMS:
                break
    if problems:
        raise DataMistake(problems)
    return found


@final
@dataclass(frozen=True, slots=True)
class PreferenceEncoding(TokenEncoding):
    """The encoding of the chats that answers end."""

    chats: ChatEncoding

    modality: ClassVar[str] = "preferences"
    has_tokenizer: ClassVar[bool] = True
    has_turns: ClassVar[bool] = True
    profiled_rows: ClassVar[int] = TextVocabulary.profiled_rows

    @property
    def vocabulary(self) -> TextVocabulary:
        """What a token is."""
        return self.chats.vocabulary

    @property
    def turn_end(self) -> str:
        """As the template ends an answer."""
        return self.chats.turn_end

    @property
    def hub_template(self) -> str:
        """See `TokenEncoding`."""
        return self.chats.hub_template

    def ask(self, messages: str, tools: str = "", /) -> list[str]:
        """As `ChatEncoding.ask`."""
        return self.chats.ask(messages, tools)

    def encode_pairs(self, chats: Sequence[Sequence[Piece]]) -> PreferenceInputs:
        """Two chats for each pair, of which the last answer is compared."""
        encoded = self.chats.encode_chats(chats)
        lasts = np.flatnonzero(np.diff(encoded.chats, append=len(chats)))
        starts = encoded.starts[lasts]
        lengths = encoded.stops[lasts] - starts
        return PreferenceInputs(TokenInputs(encoded.tokens, starts, lengths, encoded.begins))

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Of the prompts with their answers."""
        return self.chats.profile(replace(part, inputs=part.inputs.segments))

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """A list of messages."""
        return self.chats.signature(profile)

    def trial_inputs(self) -> list[Inputs]:
        """The last token, twice, as both answers of a pair."""
        (text,) = self.vocabulary.trial_inputs()
        both = TokenInputs.of_kind(text).take(np.zeros(2, dtype=np.int64))
        return [PreferenceInputs(both, np.zeros(2), np.ones(2))]

    def describe(self, rows: int) -> str:
        """Pairs, and how many different tokens they consist of."""
        return f"{many(rows, 'pair')} of {self.tokens:,} different {self.vocabulary.kind}"

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"kind": self.modality, "chats": self.chats.to_json()}

    @classmethod
    def from_json(cls, json: Json) -> PreferenceEncoding:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        return cls(ChatEncoding.from_json(json["chats"]))
