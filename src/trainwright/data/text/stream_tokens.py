"""Streaming character and byte tokenisation of texts larger than memory, in two passes.

For vocabularies in which each character is tokenised independently. Subwords are in `stream_bpe`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from trainwright.contract.sections.data.sampling import Mixture
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.files import Json
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.base.table import Integers
from trainwright.data.encoders.vocabulary import TextVocabulary, fit_characters
from trainwright.data.sources.cache import cache_file, open_cache
from trainwright.data.sources.local_files import check_unchanged
from trainwright.data.text.documents import END, Documents
from trainwright.data.text.token_file import EncodedText, head_of, read_token_file, token_bytes

SingleKind = Literal["characters", "bytes"]


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
        for version in documents.files if not section.text else ():
            check_unchanged(folder / version.path, version.path, version.sha256)

    cache = open_cache(section.reading.cache, folder)
    return read_token_file(cache_file(cache, key, section.path, write), section.path)


def _order(section: TokenData) -> dict[str, Json]:
    """Cache key of the row order of a table; empty for file order."""
    sampling = section.sampling
    if not (section.text and isinstance(sampling, Mixture)):
        return {}
    return {"sources": sampling.column}
