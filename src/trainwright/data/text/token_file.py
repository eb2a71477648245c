"""Token files, memory-mapped:

8 bytes  magic "TWTOKENS"      4 bytes  length of the header, little-endian
the header, JSON               the vocabulary, and the number of documents where there are several
where documents begin          int64, little-endian, as many as the header says
the tokens                     uint16, little-endian, to the end of the file
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, final

import numpy as np

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json, write_atomic
from trainwright.data.base.table import Integers
from trainwright.data.encoders.vocabulary import TextVocabulary, Tokens

_MAGIC = b"TWTOKENS"
_MOST_HEADER_BYTES = 2**24
_ALIGNED = 8
_BLOCK = 2**24
NOTHING_MORE: Mapping[str, Json] = MappingProxyType({})


def one_document() -> Integers:
    """Start of a single document."""
    return np.zeros(1, dtype=np.int64)


@final
@dataclass(frozen=True, slots=True)
class EncodedText:
    """Tokens uint16 [T], possibly memory-mapped, their vocabulary, and the start of each document,
    int64 [D] from 0."""

    tokens: Tokens
    vocabulary: TextVocabulary
    documents: Integers = field(default_factory=one_document)


def write_token_file(file: Path, text: EncodedText) -> None:
    """Write tokens with their vocabulary, for texts too large to encode at each start."""
    head = head_of(text.vocabulary, text.documents)
    write_atomic(file, head + text.tokens.astype("<u2").tobytes())


def head_of(
    vocabulary: TextVocabulary, documents: Integers, more: Mapping[str, Json] = NOTHING_MORE
) -> bytes:
    """Bytes before the tokens; `more` is added to the header."""
    about: dict[str, Json] = {**vocabulary.to_json(), **more}
    starts = b""
    if len(documents) > 1:
        about["documents"] = len(documents)
        starts = documents.astype("<i8").tobytes()
    header = json.dumps(about, ensure_ascii=False).encode()
    assert len(header) <= _MOST_HEADER_BYTES
    # Padding aligns the following array.
    header += b" " * (-(len(_MAGIC) + 4 + len(header)) % _ALIGNED)
    return _MAGIC + struct.pack("<I", len(header)) + header + starts


def read_token_file(file: Path, written: str = "") -> EncodedText:
    """Memory-map a file of `write_token_file`. Every token is checked against the vocabulary once,
    in chunks; only the header and the document starts are kept in memory.

    Raises:
        DataMistake: the file is not whole, or a token is outside of the vocabulary.
    """
    name = written or str(file)
    offset, about = read_head(file, name)
    try:
        vocabulary = TextVocabulary.from_json(about)
        count = int(about.get("documents", 1))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_whole(name, f"its header cannot be read ({error})") from error
    held = 8 * count if count > 1 else 0
    length = file.stat().st_size - offset - held
    if count < 1 or length < 2 or length % 2:
        raise _not_whole(name, f"{max(0, length)} bytes of tokens, 2 for each")
    documents = one_document()
    if held:
        documents = np.fromfile(file, dtype="<i8", count=count, offset=offset).astype(np.int64)
        rising = documents[0] == 0 and bool((np.diff(documents) > 0).all())
        if not rising or documents[-1] >= length // 2:
            raise _not_whole(name, "its documents do not follow each other")
    tokens = np.memmap(file, dtype="<u2", mode="r", offset=offset + held)
    highest = max(int(tokens[at : at + _BLOCK].max()) for at in range(0, len(tokens), _BLOCK))
    if highest >= vocabulary.size:
        raise _not_whole(name, f"token {highest} of a vocabulary of {vocabulary.size}")
    # Mapped again: pages read count as memory of this process while mapped.
    tokens = np.memmap(file, dtype="<u2", mode="r", offset=offset + held)
    return EncodedText(tokens, vocabulary, documents)


class TokenFileHeader(NamedTuple):
    """The header of a token file, and the position after it."""

    size: int
    about: dict[str, Json]


def read_head(file: Path, written: str) -> TokenFileHeader:
    """The header of a token file.

    Raises:
        DataMistake: it cannot be read.
    """
    with file.open("rb") as stream:
        start = stream.read(len(_MAGIC) + 4)
        size = struct.unpack("<I", start[-4:])[0] if len(start) == len(_MAGIC) + 4 else 0
        header = stream.read(size) if size <= _MOST_HEADER_BYTES else b""
    try:
        return TokenFileHeader(len(start) + size, json.loads(header))
    except (ValueError, RecursionError) as error:
        raise _not_whole(written, f"its header cannot be read ({error})") from error


def is_token_file(file: Path) -> bool:
    """Does a file begin as a token file?"""
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _not_whole(written: str, why: str) -> DataMistake:
    return DataMistake(
        Problem(
            f"the token file is not whole: {why}",
            path="data.path",
            fix="write it again from its text",
            place=Place(written),
        )
    )
