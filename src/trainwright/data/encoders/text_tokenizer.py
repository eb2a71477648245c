"""A tokenizer of the tokenizers library, as a value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, final

import numpy as np

from trainwright.core.hashing import hash_bytes
from trainwright.core.optional_dependencies import need_tokenizers
from trainwright.data.base.inputs.text_inputs import NOTHING_CUT, TextInputs, Truncation
from trainwright.data.base.token_dtype import token_dtype

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_ROWS = 4096
"""Texts that are tokenised at once."""


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
