"""From a text to tokens and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json

Tokens = npt.NDArray[np.uint16]

_MOST_CHARACTERS = 65_535
UNKNOWN = 0
"""The token of a character that the training part does not hold."""


@final
@dataclass(frozen=True, slots=True)
class TextVocabulary:
    """The tokens of a text. `characters`: token 0 is any character not in `symbols`, token i the
    i-th of `symbols`, which are sorted. `bytes`: the 256 values; `symbols` is empty."""

    kind: Literal["characters", "bytes"]
    symbols: str = ""

    @property
    def size(self) -> int:
        """Different tokens."""
        return 256 if self.kind == "bytes" else len(self.symbols) + 1

    def encode(self, text: str) -> Tokens:
        """The tokens of a text, uint16 [T]."""
        if self.kind == "bytes":
            return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint16)
        points = _points(text)
        known = _points(self.symbols)
        found = np.searchsorted(known, points)
        near = np.minimum(found, len(known) - 1)
        return np.where(known[near] == points, near + 1, UNKNOWN).astype(np.uint16)

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens; what is unknown or broken is U+FFFD."""
        if self.kind == "bytes":
            return tokens.astype(np.uint8).tobytes().decode(errors="replace")
        known = np.concatenate([[0xFFFD], _points(self.symbols)]).astype("<u4")
        return known[tokens].tobytes().decode("utf-32-le")

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"kind": "tokens", "unit": self.kind, "symbols": self.symbols}

    @staticmethod
    def from_json(json: Json) -> TextVocabulary:
        """The inverse of `to_json`.

        Raises:
            ValueError: it is no vocabulary.
        """
        unit, symbols = json["unit"], json["symbols"]
        if unit not in ("characters", "bytes") or not isinstance(symbols, str):
            raise ValueError("a vocabulary is of characters or bytes")
        if list(symbols) != sorted(set(symbols)) or bool(symbols) != (unit == "characters"):
            raise ValueError("the symbols of a vocabulary are sorted, each once")
        return TextVocabulary(unit, symbols)


def fit_characters(text: str) -> TextVocabulary:
    """The characters of the training part.

    Raises:
        DataMistake: more than 65,535 different ones.
    """
    symbols = "".join(sorted(set(text)))
    if len(symbols) > _MOST_CHARACTERS:
        raise DataMistake(
            Problem(
                "the text has too many different characters",
                path="data.vocabulary",
                found=f"{len(symbols):,}",
                expected=f"at most {_MOST_CHARACTERS:,}",
                fix="use vocabulary: bytes",
            )
        )
    return TextVocabulary("characters", symbols)


def _points(text: str) -> npt.NDArray[np.uint32]:
    """Code points [T]; the text holds no lone surrogates, as it was decoded from UTF-8."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.uint32)
