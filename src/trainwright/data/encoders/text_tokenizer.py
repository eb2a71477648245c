"""A tokenizer of the tokenizers library, as a value; and the bytes that its tokens stand for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, final

import numpy as np
import numpy.typing as npt

from trainwright.core.files import Json, hash_bytes, hash_value
from trainwright.core.lazy_imports import need_tokenizers
from trainwright.data.base.token_inputs import (
    DOCUMENT_END,
    NOTHING_CUT,
    TextInputs,
    Tokens,
    Truncation,
    token_dtype,
)
from trainwright.data.sources.cache import LENGTHS, TOKENS, Tables

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_SCHEME = 1
_NAME = "tokenised texts"
_ROWS = 4096
"""Texts that are tokenised at once."""

_BYTE = re.compile(r"<0x[0-9A-F]{2}>")

_BLANK: Final = "\u2581"
"""What SentencePiece writes for a blank."""

_DROPPING: Final = frozenset(
    {"BertPreTokenizer", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit"}
)
"""Pre-tokenizers that leave out what stands between words."""


@final
@dataclass(frozen=True, slots=True)
class TextTokenizer:
    """A tokenizer as the library writes it (`content`, JSON), the most tokens of a row, and the
    token behind the end of a shorter one. Empty where a model reads columns."""

    content: str = ""
    max_length: int = 0
    pad: int = 0

    def __bool__(self) -> bool:
        return bool(self.content)

    @property
    def vocabulary(self) -> int:
        """One more than the highest token."""
        return vocabulary_of(self.content)

    @property
    def sha256(self) -> str:
        """Of the content."""
        return hash_bytes(self.content.encode())

    def tokenize(self, columns: Sequence[Sequence[str]]) -> TextInputs:
        """The rows of one column of texts, or of two, with the special tokens of the model. A row
        that is too long is cut at its end; of a pair the longer text is."""
        is_paired = len(columns) > 1
        texts: Sequence[Any] = list(zip(*columns, strict=True)) if is_paired else columns[0]
        dtype = np.dtype(token_dtype(self.vocabulary))
        pieces, lengths, firsts = [np.empty(0, dtype)], [], []
        cut = NOTHING_CUT
        for start in range(0, len(texts), _ROWS):
            rows, cut_here = self._encode(texts[start : start + _ROWS])
            cut = Truncation(*(one + more for one, more in zip(cut, cut_here, strict=True)))
            pieces += [np.array(one.ids, dtype) for one in rows]
            lengths += [len(one.ids) for one in rows]
            firsts += [len(one.ids) - sum(one.type_ids) for one in rows]
        sizes = np.array(lengths, dtype=np.int64)
        first = np.array(firsts, dtype=np.int64)
        starts = np.cumsum(sizes) - sizes
        return TextInputs(np.concatenate(pieces), starts, sizes, first, self.pad, is_paired, cut)

    def _encode(self, texts: Sequence[Any]) -> tuple[list[Encoding], Truncation]:
        rows = _encoded(self.content, 0, texts)
        whole = sum(len(one.ids) for one in rows)
        long = [at for at, one in enumerate(rows) if len(one.ids) > self.max_length]
        short = _encoded(self.content, self.max_length, [texts[at] for at in long])
        for at, one in zip(long, short, strict=True):
            rows[at] = one
        return rows, Truncation(len(long), whole - sum(len(one.ids) for one in rows), whole)


NO_TOKENIZER = TextTokenizer()


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of the tokenizers library, which is no `Exception`, into a ValueError."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(f"the tokenizer fails: {error}") from error


def vocabulary_of(content: str) -> int:
    """One more than the highest token of a tokenizer."""
    return max(_opened(content, 0).get_vocab(with_added_tokens=True).values(), default=-1) + 1


def trial_rows(content: str) -> list[Encoding]:
    """A text and a pair of texts, tokenised.

    Raises:
        ValueError: the tokenizer fails.
    """
    texts: tuple[Any, ...] = ("a text", ("a text", "and another"))
    return [row for text in texts for row in _encoded(content, 0, [text])]


def special_tokens(content: str, *, is_paired: bool) -> int:
    """Tokens that a tokenizer adds to every text, or to every pair."""
    return int(_opened(content, 0).num_special_tokens_to_add(is_paired))


def _encoded(content: str, max_length: int, texts: Sequence[Any]) -> list[Encoding]:
    tokenizer = _opened(content, max_length)
    with panics_as_errors():
        return list(tokenizer.encode_batch(texts))


@lru_cache(maxsize=4)
def _opened(content: str, max_length: int) -> Tokenizer:
    need_tokenizers("model.architecture")
    from tokenizers import Tokenizer

    with panics_as_errors():
        tokenizer = Tokenizer.from_str(content)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if max_length:
            tokenizer.enable_truncation(max_length)
    return tokenizer


@lru_cache(maxsize=4)
def count_bytes(text: str) -> npt.NDArray[np.int64]:
    """Bytes in UTF-8 of each token [V] of a tokenizer, as JSON. Special tokens, those of unknown
    words and U+001E behind a document are no text and have none."""
    # Imported here: a table of numbers has no tokens.
    from trainwright.data.encoders.bpe import count_pieces, list_pieces

    found = json.loads(text)
    model = found["model"]
    by_bytes = any(rule.get("type") == "ByteLevel" for rule in _rules(found))
    prefix = model.get("continuing_subword_prefix") or ""
    counts = np.zeros(count_pieces(text), dtype=np.int64)
    for token, number in list_pieces(text).items():
        if token == model.get("unk_token") or number == model.get("unk_id"):
            continue
        if _BYTE.fullmatch(token):
            counts[number] = 1
        elif by_bytes:
            # Each byte is a character of its alphabet, U+001E those below U+0021 as theirs + 256.
            counts[number] = len(token) - token.count(byte_signs()[ord(DOCUMENT_END)])
        else:
            spelled = token.removeprefix(prefix).replace(_BLANK, " ").replace(DOCUMENT_END, "")
            counts[number] = len(spelled.encode())
    for added in found.get("added_tokens") or ():
        content = str(added["content"]).replace(DOCUMENT_END, "")
        counts[added["id"]] = 0 if added.get("special") else len(content.encode())
    counts.flags.writeable = False
    return counts


@lru_cache(maxsize=4)
def changes_of(text: str) -> str:
    """What a tokenizer, as JSON, may change of a text before it cuts it; empty if nothing."""
    changes = list(_changes(json.loads(text)))
    return f"the tokenizer changes the text ({', '.join(changes)})" if changes else ""


def _changes(found: Mapping[str, Any]) -> Iterator[str]:
    yield from (rule["type"] for rule in _flat(found.get("normalizer")))
    for rule in _flat(found.get("pre_tokenizer")):
        kind = rule["type"]
        removes = str(rule.get("behavior", "")).lower() == "removed"
        begins = kind == "Metaspace" and rule.get("prepend_scheme", "always") != "never"
        if kind in _DROPPING or removes or begins or rule.get("add_prefix_space") is True:
            yield kind


def _rules(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for part in ("pre_tokenizer", "decoder"):
        yield from _flat(found.get(part))


def _flat(rule: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(rule, dict):
        return
    if rule.get("type") != "Sequence":
        yield rule
        return
    for inner in ("normalizers", "pretokenizers", "decoders"):
        for one in rule.get(inner) or ():
            yield from _flat(one)


def byte_signs() -> list[str]:
    """The signs of byte-level tokenizers for the 256 bytes: those of Latin-1, and from U+0100 on
    for bytes without one."""
    others = [*range(33), *range(127, 161), 173]
    return [chr(256 + others.index(one)) if one in others else chr(one) for one in range(256)]


@final
@dataclass(frozen=True, slots=True)
class TextReading:
    """How the texts of a table are read: by which tokenizer, none for a model of columns, and where
    their tokens are kept."""

    tokenizer: TextTokenizer = NO_TOKENIZER
    cache: Literal["off"] | Tables = "off"

    def tokenize(self, columns: Sequence[Sequence[str]]) -> TextInputs:
        """As `TextTokenizer.tokenize`, done once for the same texts, tokenizer and length."""
        tokenizer = self.tokenizer
        if isinstance(self.cache, str):
            return tokenizer.tokenize(columns)
        settings = {"sha256": tokenizer.sha256, "max_length": tokenizer.max_length}
        key = hash_value({"scheme": _SCHEME, "texts": _digest(columns), **settings})

        def write(folder: Path) -> Json:
            inputs = tokenizer.tokenize(columns)
            inputs.tokens.tofile(folder / TOKENS)
            np.stack([inputs.lengths, inputs.firsts]).astype("<i8").tofile(folder / LENGTHS)
            return {"cut": list(inputs.cut), "pairs": inputs.is_paired}

        folder, entry = self.cache.entry("texts", key, _NAME, write)
        sizes = np.fromfile(folder / LENGTHS, dtype="<i8").astype(np.int64)
        lengths, firsts = sizes.reshape(2, -1)
        dtype = np.dtype(token_dtype(tokenizer.vocabulary))
        total = int(lengths.sum())
        # An empty file cannot be mapped.
        tokens: Tokens = np.empty(0, dtype)
        if total:
            tokens = np.memmap(folder / TOKENS, dtype, "r", shape=(total,))
        cut, starts = Truncation(*entry["cut"]), np.cumsum(lengths) - lengths
        return TextInputs(tokens, starts, lengths, firsts, tokenizer.pad, bool(entry["pairs"]), cut)


NO_TEXTS = TextReading()


def _digest(columns: Sequence[Sequence[str]]) -> str:
    """SHA-256 of the texts, with their lengths."""
    found = hashlib.sha256()
    for texts in columns:
        found.update(len(texts).to_bytes(8, "little"))
        for text in texts:
            data = text.encode()
            found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()
