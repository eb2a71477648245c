"""Tokens of captions: words or characters of the training captions, or the tokenizer of a base."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, assert_never, final

import numpy as np

from trainwright.contract.sections.data.pairs import CaptionTokens
from trainwright.core.files import Json
from trainwright.data.base.token_inputs import TextInputs, Truncation, token_dtype
from trainwright.data.encoders.text_tokenizer import TextTokenizer

PAD, UNKNOWN = 0, 1
"""The tokens behind the end of a caption, and of what no training caption holds."""

_FIRST = 2
_LONGEST_TRIAL = 64
_WORD = re.compile(r"\w+|[^\w\s]")
TOKENIZER = "tokenizer.json"


@final
@dataclass(frozen=True, slots=True)
class CaptionTokenizer:
    """Token i + 2 is the i-th of `symbols`, which are sorted; a caption has `max_length` tokens at
    most."""

    unit: Literal["words", "characters"]
    symbols: tuple[str, ...]
    max_length: int

    @property
    def size(self) -> int:
        """Different tokens."""
        return len(self.symbols) + _FIRST

    @property
    def pad(self) -> int:
        """The token behind the end of a caption."""
        return PAD

    @property
    def content(self) -> str:
        """Empty: its tokens are in its JSON."""
        return ""

    def identity(self) -> Json:
        """What decides every token."""
        return self.to_json()

    def tokenize(self, texts: Sequence[str]) -> TextInputs:
        """The tokens of texts, cut at the end where they are too long. An empty text is one unknown
        token."""
        codes = {symbol: code for code, symbol in enumerate(self.symbols, _FIRST)}
        rows = [
            [codes.get(one, UNKNOWN) for one in caption_pieces(text, self.unit)] for text in texts
        ]
        whole = [row or [UNKNOWN] for row in rows]
        kept = [row[: self.max_length] for row in whole]
        lengths = np.array([len(row) for row in kept], dtype=np.int64)
        tokens = np.array([one for row in kept for one in row], dtype=token_dtype(self.size))
        total = sum(map(len, whole))
        cut = Truncation(
            sum(len(row) > self.max_length for row in whole), total - int(lengths.sum()), total
        )
        starts = np.cumsum(lengths) - lengths
        return TextInputs(tokens, starts, lengths, lengths, PAD, cut=cut)

    def to_json(self) -> Json:
        """The fields by name."""
        return {"unit": self.unit, "symbols": list(self.symbols), "max_length": self.max_length}

    @classmethod
    def from_json(cls, json: Json) -> CaptionTokenizer:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        unit, symbols, longest = json["unit"], json["symbols"], json["max_length"]
        if unit not in ("words", "characters") or type(longest) is not int or longest < 1:
            raise ValueError("captions are of words or characters, and of some length")
        if not all(isinstance(one, str) for one in symbols) or symbols != sorted(set(symbols)):
            raise ValueError("the symbols of captions are sorted, each once")
        return cls(unit, tuple(symbols), longest)


def caption_pieces(text: str, unit: Literal["words", "characters"]) -> list[str]:
    """A text in lower case as words and marks, or as characters."""
    match unit:
        case "words":
            return _WORD.findall(text.lower())
        case "characters":
            return list(text.lower())
        case _:
            assert_never(unit)


def fit_captions(texts: Iterable[str], section: CaptionTokens) -> CaptionTokenizer:
    """The tokens of training captions: the commonest, and of equal ones the first by alphabet."""
    captions: Counter[str] = Counter()
    for text in texts:
        captions.update(set(caption_pieces(text, section.unit)))
    often = [(-count, one) for one, count in captions.items() if count >= section.least_captions]
    kept = sorted(one for _, one in sorted(often)[: section.most])
    return CaptionTokenizer(section.unit, tuple(kept), section.max_length)


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

    @property
    def content(self) -> str:
        """The tokenizer as the tokenizers library writes it, a file beside the JSON."""
        return self.tokenizer.content

    def tokenize(self, texts: Sequence[str]) -> TextInputs:
        """The tokens of texts, cut at the end where they are too long."""
        return self.tokenizer.tokenize([texts])

    def to_json(self) -> Json:
        """Without the tokenizer itself: that is a file of its own."""
        return {"unit": "base", "max_length": self.max_length, "pad": self.pad}

    def identity(self) -> Json:
        """What decides every token."""
        return {**self.to_json(), "tokenizer": self.tokenizer.sha256}


def read_caption_tokens(told: Json, beside: Json) -> CaptionTokenizer | BaseCaptions:
    """Inverse of `to_json` of either; a base's tokenizer is `beside` it, by the name of its file.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    if told["unit"] == "base":
        return BaseCaptions(TextTokenizer(beside[TOKENIZER], told["max_length"], told["pad"]))
    return CaptionTokenizer.from_json(told)


def trial_text(tokens: CaptionTokenizer | BaseCaptions, longest: int) -> TextInputs:
    """A text of the last token, as long as the longest of the training rows or 64 tokens, by which
    a stored model is tried."""
    length = min(longest, _LONGEST_TRIAL)
    last = np.full(length, tokens.size - 1, np.uint32)
    lengths = np.array([length], dtype=np.int64)
    return TextInputs(last, np.zeros(1, np.int64), lengths, lengths, tokens.pad)
