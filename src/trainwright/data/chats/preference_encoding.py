"""Pairs of answers as tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.inputs.preference_inputs import PreferenceInputs
from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Inputs, Part
from trainwright.data.chats.chat_encoding import ChatEncoding
from trainwright.data.chats.chat_template import Piece
from trainwright.data.encoders.encoding import InputColumn, NewRows
from trainwright.data.encoders.vocabulary import TextVocabulary, TokenEncoding


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

    def read_new(self, rows: NewRows, /) -> Inputs:
        """As `TextVocabulary.read_new`."""
        return self.vocabulary.read_new(rows)

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Of the prompts with their answers."""
        return self.chats.profile(replace(part, inputs=part.inputs.segments))

    def signature(self, profile: Mapping[str, Json], /) -> list[InputColumn]:
        """A list of messages."""
        return self.chats.signature(profile)

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return self.chats.tokens

    @property
    def tokenizer_json(self) -> str:
        """The pieces of subwords."""
        return self.chats.tokenizer_json

    def trial_inputs(self) -> list[Inputs]:
        """The last token, twice, as both answers of a pair."""
        (text,) = self.vocabulary.trial_inputs()
        both = TokenInputs.of_kind(text).take(np.zeros(2, dtype=np.int64))
        return [PreferenceInputs(both, np.zeros(2), np.ones(2))]

    def shape_json(self, outputs: int) -> Json:
        """The size of the vocabulary."""
        return self.chats.shape_json(outputs)

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
