"""Tokens of captions by the tokenizer of a base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from trainwright.core.files import Json
from trainwright.data.base.inputs.text_inputs import TextInputs
from trainwright.data.encoders.text_tokenizer import TextTokenizer

TOKENIZER = "tokenizer.json"


@final
@dataclass(frozen=True, slots=True)
class BaseCaptions:
    """Captions as a base of transformers reads them, with its special tokens."""

    tokenizer: TextTokenizer

    unit: ClassVar[str] = "tokens of the base"

    @property
    def size(self) -> int:
        """Different tokens."""
        return self.tokenizer.vocabulary

    @property
    def max_length(self) -> int:
        """Tokens of a caption at most."""
        return self.tokenizer.max_length

    @property
    def pad(self) -> int:
        """The token behind the end of a caption."""
        return self.tokenizer.pad

    def tokenize(self, texts: Sequence[str]) -> TextInputs:
        """The tokens of texts, cut at the end where they are too long."""
        return self.tokenizer.tokenize([texts])

    def to_json(self) -> Json:
        """Without the tokenizer itself: that is a file of its own."""
        return {"unit": "base", "max_length": self.max_length, "pad": self.pad}

    def identity(self) -> Json:
        """What decides every token."""
        return {**self.to_json(), "tokenizer": self.tokenizer.sha256}
