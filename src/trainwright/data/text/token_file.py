"""Token files, memory-mapped:

8 bytes  magic "TWTOKENS"      4 bytes  length of the header, little-endian
the header, JSON               the vocabulary, the type of the tokens ("dtype", uint16 or uint32;
                               uint16 where it says nothing), the number of documents where there
                               are several, and "mask": true where there is one
where documents begin          int64, little-endian, as many as the header says
the tokens                     of this type, little-endian
the mask                       a byte for each token, 1 where it counts as a target
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, final

import numpy as np

from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json, write_atomic
from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import Mask, Tokens, token_dtype
from trainwright.data.encoders.vocabulary import TextVocabulary

_MAGIC = b"TWTOKENS"
_MOST_HEADER_BYTES = 2**27
_ALIGNED = 8
_BLOCK = 2**24
_DTYPES: Mapping[str, np.dtype[Any]] = {"uint16": np.dtype("<u2"), "uint32": np.dtype("<u4")}
NOTHING_MORE: Mapping[str, Json] = MappingProxyType({})


def one_document() -> Integers:
    """Start of a single document."""
    return np.zeros(1, dtype=np.int64)


@final
@dataclass(frozen=True, slots=True)
class EncodedText:
    """Tokens [T], possibly memory-mapped, their vocabulary, the start of each document, int64 [D]
    from 0, and which tokens count as targets."""

    tokens: Tokens
    vocabulary: TextVocabulary
    documents: Integers = field(default_factory=one_document)
    mask: Mask = "all"


def write_token_file(file: Path, text: EncodedText) -> None:
    """Write tokens with their vocabulary, for texts too large to encode at each start."""
    tokens = token_bytes(text.tokens, text.vocabulary)
    if isinstance(text.mask, str):
        write_atomic(file, head_of(text.vocabulary, text.documents) + tokens)
        return
    assert len(text.mask) == len(text.tokens), "the mask says of each token whether it counts"
    head = head_of(text.vocabulary, text.documents, {"mask": True})
    write_atomic(file, head + tokens + text.mask.astype(np.uint8).tobytes())


def token_bytes(tokens: Tokens, vocabulary: TextVocabulary) -> bytes:
    """Tokens of a vocabulary as they lie in a file."""
    wide: Tokens = tokens.astype(_DTYPES[token_dtype(vocabulary.size)], copy=False)
    return wide.tobytes()


def head_of(
    vocabulary: TextVocabulary, documents: Integers, more: Mapping[str, Json] = NOTHING_MORE
) -> bytes:
    """Bytes before the tokens; `more` is added to the header."""
    about: dict[str, Json] = {
        **vocabulary.to_json(),
        "dtype": token_dtype(vocabulary.size),
        **more,
    }
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
        dtype = _DTYPES[about.get("dtype", "uint16")]
        is_masked = bool(about.get("mask", False))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _not_whole(name, f"its header cannot be read ({error})") from error
    held = 8 * count if count > 1 else 0
    size = dtype.itemsize + is_masked
    room = file.stat().st_size - offset - held
    if count < 1 or room < size or room % size:
        raise _not_whole(name, f"{max(0, room)} bytes of tokens, {size} for each")
    length = room // size
    documents = one_document()
    if held:
        documents = np.fromfile(file, dtype="<i8", count=count, offset=offset).astype(np.int64)
        rising = documents[0] == 0 and bool((np.diff(documents) > 0).all())
        if not rising or documents[-1] >= length:
            raise _not_whole(name, "its documents do not follow each other")
    begin = offset + held
    tokens = _map_checked(file, dtype, begin, length)
    if (highest := tokens.highest) >= vocabulary.size:
        raise _not_whole(name, f"token {highest} of a vocabulary of {vocabulary.size}")
    if not is_masked:
        return EncodedText(tokens.values, vocabulary, documents)
    mask = _map_checked(file, np.dtype(np.uint8), begin + length * dtype.itemsize, length)
    if mask.highest > 1:
        raise _not_whole(name, f"{mask.highest} in a mask of 0 and 1")
    return EncodedText(tokens.values, vocabulary, documents, mask.values.view(np.bool_))


class _Mapped(NamedTuple):
    """Values in a file, and the highest of them."""

    values: np.memmap[Any, Any]
    highest: int


def _map_checked(file: Path, dtype: np.dtype[Any], begin: int, length: int) -> _Mapped:
    values = np.memmap(file, dtype=dtype, mode="r", offset=begin, shape=(length,))
    highest = max(int(values[at : at + _BLOCK].max()) for at in range(0, length, _BLOCK))
    # Mapped again: pages read count as memory of this process while mapped.
    again = np.memmap(file, dtype=dtype, mode="r", offset=begin, shape=(length,))
    return _Mapped(again, highest)


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
