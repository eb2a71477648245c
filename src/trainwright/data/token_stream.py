"""A text of any length to mapped tokens: gone through twice, block by block, never in memory whole.

This is for vocabularies in which every character has its own tokens whatever stands beside it. A
vocabulary of pieces needs the whole text.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, final

import numpy as np

from trainwright.contract.tokens import TokenData
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.cache import open_cache
from trainwright.data.documents import END, Documents
from trainwright.data.local import check_unchanged
from trainwright.data.table import Integers
from trainwright.data.token_file import EncodedText, head_of, read_token_file
from trainwright.data.vocabulary import TextVocabulary, fit_characters

SingleKind = Literal["characters", "bytes"]


@final
@dataclass(frozen=True, slots=True)
class Counted:
    """How many tokens a text has, the position after each document, int64 [D], and where each
    character was met first."""

    length: int
    stops: Integers
    first: Mapping[str, int]

    def vocabulary(self, kind: SingleKind, end: int) -> TextVocabulary:
        """The vocabulary of the tokens before `end`."""
        if kind == "bytes":
            return TextVocabulary("bytes")
        return fit_characters("".join(mark for mark, at in self.first.items() if at < end))


def count_tokens(documents: Documents, kind: SingleKind) -> Counted:
    """Go through a text once."""
    length = 0
    first: dict[str, int] = {}
    stops = array("q")
    for block in documents.blocks():
        if kind == "characters":
            for mark in set(block).difference(first):
                first[mark] = length + block.index(mark)
        length += len(block) if kind == "characters" else len(block.encode())
        if documents.several and block.endswith(END):
            stops.append(length)
    if not documents.several:
        stops.append(length)
    return Counted(length, np.array(stops, dtype=np.int64), first)


def keep_tokens(
    documents: Documents,
    vocabulary: TextVocabulary,
    counted: Counted,
    section: TokenData,
    folder: Path,
) -> EncodedText:
    """The tokens of a text, from the cache if they are there."""
    begins = np.append(0, counted.stops[:-1])
    key = hash_value(
        {
            "scheme": 1,
            "files": [version.sha256 for version in documents.files],
            "column": section.text,
            "encoding": section.reading.encoding,
            "documents": hash_bytes(begins.astype("<i8").tobytes()),
            "vocabulary": vocabulary.to_json(),
        }
    )

    def write(target: Path) -> None:
        with target.open("wb") as stream:
            stream.write(head_of(vocabulary, begins))
            for block in documents.blocks():
                stream.write(vocabulary.encode(block).astype("<u2").tobytes())
        for version in documents.files if not section.text else ():
            check_unchanged(folder / version.path, version.path, version.sha256)

    cache = open_cache(section.reading.cache, folder)
    return read_token_file(cache.download(key, section.path, write), section.path)
