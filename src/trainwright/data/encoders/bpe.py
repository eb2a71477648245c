"""Byte-pair encoding by the tokenizers library: trained here, or read from its file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from trainwright.core import limits
from trainwright.core.deadline import Overrun, call_within
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import show_bytes
from trainwright.core.lazy_imports import need_tokenizers
from trainwright.data.base.token_inputs import Tokens, token_dtype

MOST_TOKENS = 2**19
"""Largest vocabulary, twice that of the largest tokenizers in use: an embedding has a row for
each token."""

_BLOCK = 2**18
_BLOCKS_AT_ONCE = 16
_WORD_ENDS = re.compile(r"(?<=\S)[ \n]")


def train_pieces(blocks: Iterable[str], size: int) -> str:
    """A byte-level byte-pair encoding as JSON: from the 256 bytes on, the pair of tokens that
    stands together most often within words becomes a token, until there are `size` (Sennrich et al.
    2016, arXiv:1508.07909, section 3.2; bytes and the pattern of words as in Radford et al. 2019,
    "Language models are unsupervised multitask learners", section 2.2). Any text comes back from
    its tokens. No word may reach from one of the blocks into the next.

    Raises:
        MissingExtra: the tokenizers library is not installed.
    """
    need_tokenizers("data.vocabulary")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
    )
    tokenizer.train_from_iterator(blocks, trainer)
    return str(tokenizer.to_str())


def with_marks(text: str, marks: Sequence[str]) -> str:
    """The tokenizer, as JSON, with each of these marks as a token of its own, behind the others."""
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_str(text)
    tokenizer.add_special_tokens([AddedToken(mark, normalized=False) for mark in marks])
    return str(tokenizer.to_str())


def read_pieces(file: Path, written: str) -> str:
    """A `tokenizer.json`, checked.

    Raises:
        DataMistake: it is missing, no tokenizer, or one of too many tokens. MissingExtra.
    """
    need_tokenizers("data.tokenizer")
    if not file.is_file():
        raise DataMistake(
            Problem(
                "there is no such tokenizer",
                path="data.tokenizer",
                found=written,
                fix="name a tokenizer.json, relative to the contract's folder",
            )
        )
    if (bytes_ := file.stat().st_size) > limits.MOST_TOKENIZER_BYTES:
        most = show_bytes(limits.MOST_TOKENIZER_BYTES)
        raise DataMistake(_too_large(show_bytes(bytes_), f"at most {most}", written))
    try:
        text = file.read_text(encoding="utf-8")
        _check_shape(text, written)
        size = count_pieces(text)
    except DataMistake:
        raise
    except Exception as error:  # the library raises Exception itself
        raise DataMistake(
            Problem(
                f"the tokenizer cannot be read ({error})",
                path="data.tokenizer",
                expected="a tokenizer.json of the tokenizers library",
                fix="write it again: tokenizer.save('tokenizer.json')",
                place=Place(written),
            )
        ) from error
    if size > MOST_TOKENS:
        raise _too_many(size, written)
    return text


def _check_shape(text: str, written: str) -> None:
    """Refuse a tokenizer that its library would need too much memory for."""
    growth, count = _shape_of(text)
    if count > MOST_TOKENS:
        raise _too_many(count, written)
    if growth > limits.MOST_TOKENIZER_GROWTH:
        found = f"a text may grow {growth:.3g} times"
        most = f"at most {limits.MOST_TOKENIZER_GROWTH} times"
        raise DataMistake(_too_large(found, most, written))


def _too_large(found: str, expected: str, written: str) -> Problem:
    return Problem(
        "the tokenizer is larger than any that is used",
        path="data.tokenizer",
        found=found,
        expected=expected,
        fix="use another one, or write vocabulary: bpe and remove tokenizer",
        place=Place(written),
    )


def _too_many(size: int, written: str) -> DataMistake:
    return DataMistake(
        Problem(
            "the tokenizer has too many tokens",
            path="data.tokenizer",
            found=f"{size:,}",
            expected=f"at most {MOST_TOKENS:,}",
            fix="use a smaller one, or write vocabulary: bpe and remove tokenizer",
            place=Place(written),
        )
    )


def check_pieces(text: str) -> None:
    """Raise ValueError if a text is not the JSON of a tokenizer; its content is read at its first
    use."""
    found = json.loads(text)
    if not isinstance(found, dict) or "model" not in found:
        raise ValueError("a vocabulary of subwords is a tokenizer as JSON")


def count_pieces(text: str) -> int:
    """Vocabulary size: the highest token id plus one."""
    return _counted(text)


def list_pieces(text: str) -> Mapping[str, int]:
    """Tokens as the tokenizer spells them, and their numbers."""
    pieces: dict[str, int] = _tokenizer(text).get_vocab(with_added_tokens=True)
    return pieces


def encode_pieces(text: str, texts: Sequence[str]) -> list[Tokens]:
    """Tokens of each text, without special tokens."""
    tokenizer, dtype = _tokenizer(text), token_dtype(_counted(text))
    if not ends_at_words(text):
        found = _encoded(tokenizer, list(texts))
        return [np.array(one.ids, dtype=dtype) for one in found]
    blocks = [(number, one) for number, each in enumerate(texts) for one in blocks_of(each)]
    encoded: list[list[Tokens]] = [[] for _ in texts]
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        some = blocks[start : start + _BLOCKS_AT_ONCE]
        found = _encoded(tokenizer, [one for _, one in some])
        for (number, _), one in zip(some, found, strict=True):
            encoded[number].append(np.array(one.ids, dtype=dtype))
    return [np.concatenate(one) if one else np.zeros(0, dtype) for one in encoded]


def _encoded(tokenizer: Any, texts: list[str]) -> Any:
    """The library's answer. A pattern of a tokenizer's own may need time without end."""
    seconds = limits.TOKENIZER_SECONDS
    seconds += sum(map(len, texts)) / limits.TOKENIZER_LETTERS_PER_SECOND
    try:
        return call_within(seconds, lambda: tokenizer.encode_batch(texts, add_special_tokens=False))
    except Overrun:
        raise DataMistake(
            Problem(
                "the tokenizer does not come to an end",
                path="data.tokenizer",
                found=f"{seconds:.0f} seconds for {sum(map(len, texts)):,} letters",
                expected=f"{limits.TOKENIZER_LETTERS_PER_SECOND:,} letters a second",
                fix="look at the patterns of its pre_tokenizer, or write vocabulary: bpe and "
                "remove tokenizer",
            )
        ) from None


def _shape_of(text: str) -> tuple[float, int]:
    """How many times longer a tokenizer, as JSON, may make a text before it cuts it into tokens, or
    how it transforms tokens; and how many tokens it lists.

    Raises:
        ValueError: it is not JSON.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("a tokenizer is a mapping")  # noqa: TRY004 (reported as a Problem)
    before = _growth(found.get("normalizer")) * _growth(found.get("pre_tokenizer"))
    model = found.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    count = len(listed) if isinstance(listed, dict | list) else 0
    return max(before, _growth(found.get("decoder"))), count


def _growth(rule: Any) -> float:
    if not isinstance(rule, dict):
        return 1.0
    match rule.get("type"):
        case "Sequence":
            rules = rule.get("normalizers") or rule.get("pretokenizers") or rule.get("decoders")
            return math.prod(map(_growth, rules or ()))
        case "Replace":
            pattern = rule.get("pattern")
            plain = pattern.get("String", "") if isinstance(pattern, dict) else ""
            # An expression may match a single letter.
            return max(1.0, len(str(rule.get("content", ""))) / max(1, len(str(plain))))
        case "Prepend":
            return 1.0 + len(str(rule.get("prepend", "")))
        case "ByteLevel":
            return 2.0
        case _:
            return 1.0


def blocks_of(text: str) -> Iterator[str]:
    """The text in blocks of about 256 thousand characters that begin with the blank or line break
    after a word: no word, and so no token of `train_pieces`, reaches from one into the next. The
    library needs about a hundred times the memory of what it is given at once."""
    return (block for _, block in blocks_within([text], [(0, len(text))]))


def blocks_within(
    texts: Iterable[str], regions: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, str]]:
    """`blocks_of` each region of a text that comes in parts, with the number of the region. Regions
    are given by the positions where they begin and stop, in ascending order; where the text ends
    before them, so do the blocks."""
    parts = iter(texts)
    held, at = "", 0
    for number, (start, stop) in enumerate(regions):
        while at + len(held) < start:
            at += len(held)
            if (more := next(parts, None)) is None:
                return
            held = more
        held, at = held[start - at :], start
        searched = _BLOCK
        while at < stop:
            inside = min(len(held), stop - at)
            found = _WORD_ENDS.search(held, searched, inside)
            if not found and at + inside < stop:
                searched = max(_BLOCK, inside)
                if (more := next(parts, None)) is None:
                    return
                held += more
                continue
            end = found.start() if found else inside
            yield number, held[:end]
            held, at, searched = held[end:], at + end, _BLOCK


def ends_at_words(text: str) -> bool:
    """Whether a tokenizer divides a text into words as that of `train_pieces` does."""
    found = json.loads(text)
    words = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    given = found.get("pre_tokenizer") or {}
    return (
        all(given.get(name) == value for name, value in words.items())
        and not found.get("normalizer")
        and not found.get("added_tokens")
        and not found["model"].get("ignore_merges")
    )


def decode_pieces(text: str, tokens: Tokens) -> str:
    """Decode tokens."""
    return str(_tokenizer(text).decode(tokens.tolist(), skip_special_tokens=False))


@lru_cache(maxsize=4)
def _tokenizer(text: str) -> Any:
    need_tokenizers("data.vocabulary")
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(text)
    # A file may ask for either; here every token of a text counts.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@lru_cache(maxsize=4)
def _counted(text: str) -> int:
    return int(max(_tokenizer(text).get_vocab(with_added_tokens=True).values())) + 1
