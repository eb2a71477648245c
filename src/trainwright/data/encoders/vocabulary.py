"""Tokenisation and detokenisation of text."""

from __future__ import annotations

import json
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, assert_never, final

import numpy as np
import numpy.typing as npt

from trainwright.core.errors import Mistake, NotAvailable, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import rounded, safe_quantiles
from trainwright.data.base.inputs import Inputs, Part
from trainwright.data.base.token_inputs import DOCUMENT_END, TokenInputs, Tokens, token_dtype
from trainwright.data.encoders.bpe import check_pieces, count_pieces, decode_pieces, encode_pieces
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows
from trainwright.data.encoders.text_tokenizer import byte_signs, changes_of, count_bytes

UNKNOWN = 0
"""The token of a character that the training part does not hold."""


class TokenEncoding(Encoding):
    """Encoding by a vocabulary of tokens. `has_tokenizer`: its data always name a tokenizer.
    `has_turns`: texts are messages, which a model answers."""

    __slots__ = ()

    has_tokenizer: ClassVar[bool] = False
    has_turns: ClassVar[bool] = False

    @property
    @abstractmethod
    def vocabulary(self) -> TextVocabulary:
        """What a token is."""

    @property
    def tokens(self) -> int:
        """The size of the vocabulary."""
        return self.vocabulary.size

    @property
    def tokenizer_json(self) -> str:
        """The pieces of subwords."""
        return self.vocabulary.symbols if self.vocabulary.kind == "subwords" else ""

    def read_new(self, _rows: NewRows, /) -> Inputs:
        """Refused: a text is not continued in this version."""
        raise NotAvailable(
            Problem(
                "writing text is not available in this version",
                fix="evaluate the model on a text instead",
            )
        )

    def shape_json(self, outputs: int) -> Json:
        """The size of the vocabulary."""
        return {"kind": "tokens", "outputs": outputs}

    @property
    def turn_end(self) -> str:
        """What ends an answer; empty where texts have none.

        Raises:
            Mistake: the template of the chats is a program that may not run.
        """
        return ""

    @property
    def hub_template(self) -> str:
        """The chat template as jinja; empty where texts have no messages."""
        return ""

    def ask(self, _messages: str, _tools: str = "", /) -> list[str]:
        """The text after which the model answers messages, a list in JSON; no token reaches from
        one of its pieces into the next.

        Raises:
            Mistake: texts have no messages, or they are no messages.
        """
        raise Mistake(
            Problem(
                "the model was trained on texts, which have no messages",
                path="--chat",
                fix="leave out --chat, or train on data of kind chats",
            )
        )


@final
@dataclass(frozen=True, slots=True)
class TextVocabulary(TokenEncoding):
    """The tokens of a text. `characters`: token 0 is any character not in `symbols`, token i the
    i-th of `symbols`, which are sorted. `bytes`: the 256 values; `symbols` is empty. `subwords`:
    pieces of words; `symbols` is the tokenizer as JSON."""

    kind: Literal["characters", "bytes", "subwords"]
    symbols: str = ""

    modality: ClassVar[str] = "tokens"

    profiled_rows: ClassVar[int] = sys.maxsize

    @property
    def vocabulary(self) -> TextVocabulary:
        """Itself."""
        return self

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Lengths of the documents, and the share of unknown characters."""
        inputs = TokenInputs.of_kind(part.inputs)
        lengths = inputs.document_lengths()
        unknown = 0.0
        if self.kind == "characters":
            spans = [inputs.tokens[start:stop] for _, start, stop in inputs.source_spans().tolist()]
            total = sum(len(span) for span in spans)
            unknown = sum(int((span == UNKNOWN).sum()) for span in spans) / max(1, total)
        return {
            "documents": len(lengths),
            "document_tokens": safe_quantiles(lengths.astype(np.float64)),
            "unknown_share": rounded(unknown),
        }

    def signature(self, _profile: Mapping[str, Json], /) -> list[InputColumn]:
        """A text."""
        return [InputColumn("text", f"text of {self.kind}")]

    def describe(self, rows: int) -> str:
        """Tokens, and how many of them differ."""
        return f"{many(rows, 'token')} of {self.size} different {self.kind}"

    def hub_tokenizer(self) -> Json:
        """The tokenizer as the JSON of the tokenizers library."""
        if self.kind == "subwords":
            return json.loads(self.symbols)
        if self.kind == "bytes":
            signs = dict(zip(byte_signs(), range(256), strict=True))
            model: Json = {"type": "BPE", "vocab": signs, "merges": []}
            split: Json = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
            split, decoder = (split | {"trim_offsets": True},) * 2
        else:
            signs = {sign: number for number, sign in enumerate(["<unk>", *self.symbols])}
            model = {"type": "WordLevel", "vocab": signs, "unk_token": "<unk>"}
            every, decoder = {"Regex": r"[\s\S]"}, {"type": "Fuse"}
            split = {"type": "Split", "pattern": every, "behavior": "Isolated", "invert": False}
        parts = {"pre_tokenizer": split, "decoder": decoder, "model": model}
        return {"version": "1.0", "added_tokens": [], **parts}

    def trial_inputs(self) -> list[Inputs]:
        """The last token, twice."""
        last = np.full(2, self.size - 1, token_dtype(self.size))
        return [TokenInputs(last, np.ones(1, np.int64), np.ones(1, np.int64))]

    @property
    def size(self) -> int:
        """Different tokens."""
        match self.kind:
            case "bytes":
                return 256
            case "characters":
                return len(self.symbols) + 1
            case "subwords":
                return count_pieces(self.symbols)
            case _:
                assert_never(self.kind)

    def byte_counts(self) -> npt.NDArray[np.int64]:
        """Bytes of text, in UTF-8, that each token stands for, [V]. Marks that are no text (ends of
        documents and turns, other special tokens) and unknown characters stand for none."""
        match self.kind:
            case "bytes":
                counts = np.ones(256, dtype=np.int64)
                counts[ord(DOCUMENT_END)] = 0
                return counts
            case "characters":
                known = [0 if one == DOCUMENT_END else len(one.encode()) for one in self.symbols]
                return np.array([0, *known], dtype=np.int64)
            case "subwords":
                return count_bytes(self.symbols)
            case _:
                assert_never(self.kind)

    def losses(self) -> tuple[str, ...]:
        """What bits per byte have to say of a tokenizer that changes the text."""
        changed = changes_of(self.symbols) if self.kind == "subwords" else ""
        if not changed:
            return ()
        return (f"{changed}: bits_per_byte counts the bytes that are left of a text",)

    def encode(self, text: str) -> Tokens:
        """The tokens of a text, as wide as `size` needs, [T]."""
        (tokens,) = self.encode_each([text])
        return tokens

    def encode_each(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of each text; of `subwords` none reaches from one into another."""
        if self.kind == "subwords":
            return encode_pieces(self.symbols, texts)
        return [self._encode(text) for text in texts]

    def _encode(self, text: str) -> Tokens:
        if self.kind == "bytes":
            return np.frombuffer(text.encode(), dtype=np.uint8).astype(np.uint16)
        points = _points(text)
        known = _points(self.symbols)
        found = np.searchsorted(known, points)
        near = np.minimum(found, len(known) - 1)
        return np.where(known[near] == points, near + 1, UNKNOWN).astype(token_dtype(self.size))

    def decode(self, tokens: Tokens) -> str:
        """The text of tokens; what is unknown or broken is U+FFFD."""
        if self.kind == "subwords":
            return decode_pieces(self.symbols, tokens)
        if self.kind == "bytes":
            return tokens.astype(np.uint8).tobytes().decode(errors="replace")
        known = np.concatenate([[0xFFFD], _points(self.symbols)]).astype("<u4")
        return known[tokens].tobytes().decode("utf-32-le")

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"kind": self.modality, "unit": self.kind, "symbols": self.symbols}

    @classmethod
    def from_json(cls, json: Json) -> TextVocabulary:
        """The inverse of `to_json`.

        Raises:
            ValueError: it is no vocabulary.
        """
        unit, symbols = json["unit"], json["symbols"]
        if unit not in ("characters", "bytes", "subwords") or not isinstance(symbols, str):
            raise ValueError("a vocabulary is of characters or bytes, or of subwords")
        if unit == "subwords":
            check_pieces(symbols)
            return TextVocabulary(unit, symbols)
        if list(symbols) != sorted(set(symbols)) or bool(symbols) != (unit == "characters"):
            raise ValueError("the symbols of a vocabulary are sorted, each once")
        return TextVocabulary(unit, symbols)


def fit_characters(text: str) -> TextVocabulary:
    """Fit a character vocabulary on the training part."""
    return TextVocabulary("characters", "".join(sorted(set(text))))


def _points(text: str) -> npt.NDArray[np.uint32]:
    """Code points [T]; the text holds no lone surrogates, as it was decoded from UTF-8."""
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.uint32)
