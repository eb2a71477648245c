"""Streaming tokenisation of texts larger than memory: characters, bytes, byte pairs.

Characters and bytes, each tokenised by itself, take two passes. Texts whose documents are known
in characters are divided by a separator, or tokenised by subwords: merges are learned on the
training part; a long one is subsampled in evenly spaced blocks, with a note. Only a tokenizer
whose tokens may cross words needs the whole text in memory.
"""

from __future__ import annotations

import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Literal, NamedTuple, assert_never, final

import numpy as np

from trainwright.contract.sections.data.data_traits import Mixture
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.files import Json, hash_bytes, hash_value
from trainwright.core.lazy_imports import need_tokenizers
from trainwright.data.base.inputs import Integers
from trainwright.data.encoders.bpe import blocks_within, ends_at_words, read_pieces, train_pieces
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.data.sources.cache import cache_file, cache_value, open_cache
from trainwright.data.sources.local_files import check_unchanged
from trainwright.data.text.documents import END, Documents
from trainwright.data.text.text_sources import PARTS, TextSource, check_lengths, split_documents
from trainwright.data.text.token_file import (
    EncodedText,
    head_of,
    read_head,
    read_token_file,
    token_bytes,
)

SingleKind = Literal["characters", "bytes"]

MOST_LEARNED = 2**25
"""Limit of training characters for learning merges."""

_AT_ONCE = 2**20
"""Characters encoded at once."""


@final
@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token count of a text, end position of each document, int64 [D], and first occurrence of each
    character in each source."""

    length: int
    stops: Integers
    first: Sequence[Mapping[str, int]]

    def vocabulary(self, kind: SingleKind, ends: Sequence[int]) -> TextVocabulary:
        """Vocabulary of the tokens of each source before its `ends`."""
        if kind == "bytes":
            return TextVocabulary("bytes")
        met = zip(self.first, ends, strict=True)
        return fit_characters(
            "".join(m for first, end in met for m, at in first.items() if at < end)
        )


def count_tokens(documents: Documents, kind: SingleKind) -> TokenCounts:
    """Count tokens in one pass."""
    length = 0
    firsts: list[dict[str, int]] = [{}]
    ends = np.cumsum([source.documents for source in documents.sources]).tolist()
    stops = array("q")
    for block in documents.blocks():
        if len(firsts) < len(ends) and len(stops) == ends[len(firsts) - 1]:
            firsts.append({})
        first = firsts[-1]
        if kind == "characters":
            for mark in set(block).difference(first):
                first[mark] = length + block.index(mark)
        length += len(block) if kind == "characters" else len(block.encode())
        if documents.several and block.endswith(END):
            stops.append(length)
    if not documents.several:
        stops.append(length)
    return TokenCounts(length, np.array(stops, dtype=np.int64), firsts)


def keep_tokens(
    documents: Documents,
    vocabulary: TextVocabulary,
    counted: TokenCounts,
    section: TokenData,
    folder: Path,
) -> EncodedText:
    """Tokenise a text into the cache."""
    begins = np.append(0, counted.stops[:-1])
    key = hash_value(
        {
            "scheme": 1,
            "files": [version.sha256 for version in documents.files],
            "column": section.text,
            "encoding": section.reading.encoding,
            "documents": hash_bytes(begins.astype("<i8").tobytes()),
            "vocabulary": vocabulary.to_json(),
            **_order(section),
        }
    )

    def write(target: Path) -> None:
        with target.open("wb") as stream:
            stream.write(head_of(vocabulary, begins))
            for block in documents.blocks():
                stream.write(token_bytes(vocabulary.encode(block), vocabulary))
        for one in documents.files if not section.text else ():
            check_unchanged(folder / one.path, one.path, one.sha256)

    cache = open_cache(section.reading.cache, folder)
    return read_token_file(cache_file(cache, key, section.path, write), section.path)


def _order(section: TokenData) -> dict[str, Json]:
    """Cache key of the row order of a table; empty for file order."""
    sampling = section.sampling
    if not (section.text and isinstance(sampling, Mixture)):
        return {}
    return {"sources": sampling.column}


class StreamedTokens(NamedTuple):
    """A tokenised text with its sources and notes."""

    text: EncodedText
    sources: tuple[TextSource, ...]
    notes: tuple[str, ...]


def stream_pieces(documents: Documents, section: TokenData, folder: Path) -> StreamedTokens:
    """Tokenise documents, cached. No token crosses a document or part boundary.

    Raises:
        DataMistake: a source has too little text. MissingExtra: tokenizers is not installed.
    """
    mark = END if documents.several else section.separator
    stops = document_stops(documents.blocks(), mark)
    sources = split_documents(stops, documents.sources, section)
    vocabulary, notes = _vocabulary(documents, sources, section, folder)
    encoded, in_tokens = _kept(documents, vocabulary, stops, sources, section, folder)
    check_lengths(in_tokens)
    return StreamedTokens(encoded, in_tokens, notes)


def document_stops(blocks: Iterable[str], mark: str) -> Integers:
    """End position of each document, int64 [D], by separator; without one, that of the text."""
    stops: list[int] = []
    length, rest = 0, ""
    for block in blocks:
        if mark:
            pieces = (rest + block).split(mark)
            begin = length - len(rest)
            ends = accumulate((len(one) + len(mark) for one in pieces[:-1]), initial=begin)
            stops += list(ends)[1:]
            # A separator may span two blocks.
            rest = pieces[-1][max(0, len(pieces[-1]) - len(mark) + 1) :]
        length += len(block)
    # A trailing separator is not followed by an empty document.
    if not stops or stops[-1] < length:
        stops.append(length)
    return np.array(stops, dtype=np.int64)


def _vocabulary(
    documents: Documents, sources: Sequence[TextSource], section: TokenData, folder: Path
) -> tuple[TextVocabulary, tuple[str, ...]]:
    """Vocabulary of the training part of each source, with notes."""
    match section.vocabulary:
        case "bpe":
            return _learned(documents, sources, section, folder)
        case "tokenizer":
            symbols = read_pieces(folder / section.tokenizer, section.tokenizer)
            return TextVocabulary("subwords", symbols), ()
        case "bytes":
            return TextVocabulary("bytes"), ()
        case "characters":
            regions = [(one.start, one.ends["train"]) for one in sources]
            blocks = blocks_within(documents.blocks(), regions)
            return fit_characters("".join({mark for _, block in blocks for mark in block})), ()
        case _:
            assert_never(section.vocabulary)


def _learned(
    documents: Documents, sources: Sequence[TextSource], section: TokenData, folder: Path
) -> tuple[TextVocabulary, tuple[str, ...]]:
    """Learn the vocabulary on the training part of each source."""
    need_tokenizers("data.vocabulary")
    regions = [(one.start, one.ends["train"]) for one in sources]
    length = sum(stop - start for start, stop in regions)
    step = -(-length // MOST_LEARNED)
    key = hash_value(
        {
            **_text_identity(documents, section),
            "scheme": 1,
            "regions": regions,
            "size": section.vocabulary_size,
            "most": MOST_LEARNED,
        }
    )
    read = 0

    def blocks() -> Iterator[str]:
        nonlocal read
        for number, (_, block) in enumerate(blocks_within(documents.blocks(), regions)):
            if number % step == 0:
                read += len(block)
                yield block

    def learn() -> Json:
        symbols = train_pieces(blocks(), section.vocabulary_size)
        return {"symbols": symbols, "read": read}

    cache = open_cache(section.reading.cache, folder)
    found = cache_value(cache, key, f"merges of {section.path}", learn)
    notes: tuple[str, ...] = ()
    if step > 1:
        notes = (
            f"the merges of bpe are learned on {found['read']:,} of {length:,} training "
            f"characters: one block in {step}",
        )
    return TextVocabulary("subwords", found["symbols"]), notes


def _text_identity(documents: Documents, section: TokenData) -> dict[str, Json]:
    """Cache key: the identity of the text and of the tokenizer library."""
    has_library = section.vocabulary in ("bpe", "tokenizer")
    return {
        "files": [one.sha256 for one in documents.files],
        "column": section.text,
        "reading": section.reading.model_dump(mode="json", exclude={"cache"}),
        "sampling": section.sampling.model_dump(mode="json"),
        **({"tokenizers": version("tokenizers")} if has_library else {}),
    }


def _kept(
    documents: Documents,
    vocabulary: TextVocabulary,
    stops: Integers,
    sources: Sequence[TextSource],
    section: TokenData,
    folder: Path,
) -> tuple[EncodedText, tuple[TextSource, ...]]:
    """Write the tokens of a text to a file, and locate its sources in them."""
    ends = [end for one in sources for end in one.ends.values()]
    cuts = np.unique(np.concatenate([[0], stops, ends])).astype(np.int64)
    key = hash_value(
        {
            **_text_identity(documents, section),
            "scheme": 3,
            "cuts": hash_bytes(cuts.astype("<i8").tobytes()),
            # Parts may end where documents do: the cuts of other shares are the same then.
            "parts": [[one.start, *one.ends.values()] for one in sources],
            "documents": hash_bytes(stops.astype("<i8").tobytes()),
            "vocabulary": vocabulary.to_json(),
        }
    )

    def write(target: Path) -> None:
        with target.with_name("tokens").open("w+b") as tokens, target.open("wb") as stream:
            positions = np.append(0, np.cumsum(_encode(documents, vocabulary, cuts, tokens)))

            def in_tokens(position: int) -> int:
                return int(positions[np.searchsorted(cuts, position)])

            begins = np.array([in_tokens(at) for at in (0, *stops[:-1].tolist())], dtype=np.int64)
            parts = [[in_tokens(at) for at in (one.start, *one.ends.values())] for one in sources]
            tokens.seek(0)
            stream.write(head_of(vocabulary, begins, {"parts": parts}))
            shutil.copyfileobj(tokens, stream, 2**20)
        for one in documents.files if not section.text else ():
            check_unchanged(folder / one.path, one.path, one.sha256)

    cache = open_cache(section.reading.cache, folder)
    file = cache_file(cache, key, section.path, write)
    parts = read_head(file, section.path).about["parts"]
    return read_token_file(file, section.path), tuple(
        TextSource(one.name, start, dict(zip(PARTS, found, strict=True)))
        for one, (start, *found) in zip(sources, parts, strict=True)
    )


def _encode(
    documents: Documents, vocabulary: TextVocabulary, cuts: Integers, stream: IO[bytes]
) -> Integers:
    """Write the tokens of a text, none crossing a cut, and count the tokens between consecutive
    cuts."""
    lengths = np.zeros(len(cuts) - 1, dtype=np.int64)
    waiting: list[tuple[int, str]] = []

    def flush() -> None:
        for (number, _), tokens in zip(
            waiting, vocabulary.encode_each([text for _, text in waiting]), strict=True
        ):
            lengths[number] += len(tokens)
            stream.write(token_bytes(tokens, vocabulary))
        waiting.clear()

    spans = pairwise(cuts.tolist())
    pieces = blocks_within(documents.blocks(), spans)
    if vocabulary.kind == "subwords" and not ends_at_words(vocabulary.symbols):
        text = "".join(documents.blocks())
        pieces = enumerate(text[start:stop] for start, stop in spans)
    letters = 0
    for one in pieces:
        waiting.append(one)
        letters += len(one[1])
        if letters >= _AT_ONCE:
            flush()
            letters = 0
    flush()
    return lengths
