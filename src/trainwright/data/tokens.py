"""A text as one sequence of tokens: read, divided by position, and prepared.

A token file holds uint16 tokens behind a header with their vocabulary, and is mapped into memory:

    8 bytes  magic "TWTOKENS"      4 bytes  length of the header, little-endian
    the header, JSON               then the tokens, uint16, little-endian, to the end of the file
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import write_atomic
from trainwright.core.hashing import hash_bytes, hash_file, hash_value
from trainwright.data.local import read_bytes
from trainwright.data.prepared import Prepared
from trainwright.data.reading import DataFacts
from trainwright.data.sources import FileVersion
from trainwright.data.split_report import SplitReport
from trainwright.data.table import Integers, Part, PartName, TokenInputs
from trainwright.data.target import NextToken
from trainwright.data.target_column import TargetFacts
from trainwright.data.vocabulary import TextVocabulary, Tokens, fit_characters

_MAGIC = b"TWTOKENS"
_MOST_HEADER_BYTES = 2**22
STRETCH = 256
"""Tokens of a stretch that is judged as one: neighbours in a text depend on each other, so the
bootstrap draws stretches, not tokens."""

_FEWEST_TOKENS = 64


@final
@dataclass(frozen=True, slots=True)
class RawTokens:
    """A text before it is divided: its characters, or its tokens with their vocabulary."""

    content: str | EncodedText
    facts: DataFacts
    notes: tuple[str, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class EncodedText:
    """Tokens uint16 [T], which may be mapped from a file, and what they stand for."""

    tokens: Tokens
    vocabulary: TextVocabulary


def read_tokens(section: TokenData, folder: Path) -> RawTokens:
    """Read the text or token file that the section names.

    Raises:
        DataMistake: it is missing, not UTF-8, or a token file that is not whole.
    """
    file = folder / section.path
    if _is_token_file(file):
        encoded = read_token_file(file, section.path)
        content: str | EncodedText = encoded
        length = len(encoded.tokens)
        version = FileVersion(section.path, hash_file(file), file.stat().st_size, length)
    else:
        data = read_bytes(file, section.path, "data.path")
        text = _decoded(data, section.path)
        content = text
        length = len(data) if section.vocabulary == "bytes" else len(text)
        version = FileVersion(section.path, hash_bytes(data), len(data), length)
    _check_length(section, length)
    facts = DataFacts(
        rows=length,
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=(version,),
        given=frozenset(),
        part_rows={"train": length},
    )
    return RawTokens(content, facts)


def prepare_tokens(raw: RawTokens, section: TokenData) -> Prepared:
    """Divide by position; a vocabulary of characters is that of the training part alone."""
    text = raw.content
    ends = part_ends(raw.facts.rows, section)
    if isinstance(text, str):
        if section.vocabulary == "bytes":
            vocabulary = TextVocabulary("bytes")
        else:
            vocabulary = fit_characters(text[: ends["train"]])
        text = EncodedText(vocabulary.encode(text), vocabulary)
    parts: dict[PartName, Part] = {}
    start = 1
    for name in ("train", "validation", "test"):
        parts[name] = token_part(text.tokens, name, start, ends[name])
        start = ends[name]
    target = NextToken(text.vocabulary.size)
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=text.vocabulary,
        target=target,
        split=_report(ends),
        version=hash_value(
            {
                "scheme": 1,
                "files": [file.sha256 for file in raw.facts.files],
                "ends": {str(part): end for part, end in ends.items()},
                "vocabulary": text.vocabulary.to_json(),
            }
        ),
    )


def part_ends(tokens: int, section: TokenData) -> dict[PartName, int]:
    """Where each part ends: the position after its last token."""
    test = tokens - round(tokens * section.test)
    return {
        "train": test - round(tokens * section.validation),
        "validation": test,
        "test": tokens,
    }


def token_part(tokens: Tokens, name: PartName, start: int, end: int) -> Part:
    """The tokens from `start` to `end` as stretches, each a row and a unit; the first token of a
    text has nothing before it and is not predicted."""
    starts: Integers = np.arange(start, end, STRETCH, dtype=np.int64)
    lengths = np.minimum(STRETCH, end - starts)
    frame = pl.DataFrame({"position": starts, "tokens": lengths})
    target = NextToken(0).encode(frame["tokens"])
    rows = np.arange(len(starts))
    return Part(name, frame, TokenInputs(tokens, starts, lengths), target, starts, rows)


def text_part(data: bytes, written: str, vocabulary: TextVocabulary) -> Part:
    """The bytes of another text as a part, for judging a fitted model on it.

    Raises:
        DataMistake: it is not UTF-8, or one token long.
    """
    tokens = vocabulary.encode(_decoded(data, written))
    if len(tokens) < 2:
        raise DataMistake(
            Problem("the text is too short to judge", path="DATA", found=f"{len(tokens)} tokens")
        )
    return token_part(tokens, "test", 1, len(tokens))


def write_token_file(file: Path, text: EncodedText) -> None:
    """Write tokens with their vocabulary, for texts too large to encode at each start."""
    header = json.dumps(text.vocabulary.to_json(), ensure_ascii=False).encode()
    assert len(header) <= _MOST_HEADER_BYTES
    tokens = text.tokens.astype("<u2").tobytes()
    # The tokens begin on an even byte, as their type needs.
    header += b" " * (len(header) % 2)
    write_atomic(file, _MAGIC + struct.pack("<I", len(header)) + header + tokens)


def read_token_file(file: Path, written: str = "") -> EncodedText:
    """Map the tokens of a file that `write_token_file` wrote; nothing but the header is read.

    Raises:
        DataMistake: the file is not whole, or a token is outside of the vocabulary.
    """
    with file.open("rb") as stream:
        start = stream.read(len(_MAGIC) + 4)
        size = struct.unpack("<I", start[-4:])[0] if len(start) == len(_MAGIC) + 4 else 0
        header = stream.read(size) if size <= _MOST_HEADER_BYTES else b""
    offset = len(start) + size
    length = file.stat().st_size - offset
    try:
        vocabulary = TextVocabulary.from_json(json.loads(header))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _not_whole(written or str(file), f"its header cannot be read ({error})") from error
    if length < 2 or length % 2:
        raise _not_whole(written or str(file), f"{max(0, length)} bytes of tokens, 2 for each")
    tokens = np.memmap(file, dtype="<u2", mode="r", offset=offset)
    highest = int(tokens.max())
    if highest >= vocabulary.size:
        raise _not_whole(
            written or str(file), f"token {highest} of a vocabulary of {vocabulary.size}"
        )
    return EncodedText(tokens, vocabulary)


def _is_token_file(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _decoded(data: bytes, written: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataMistake(
            Problem(
                "the file is not a text in UTF-8",
                path="data.path",
                found=f"byte {data[error.start]:#04x} at position {error.start:,}",
                fix="convert it: iconv -f ENCODING -t UTF-8",
                place=Place(written),
            )
        ) from error


def _check_length(section: TokenData, length: int) -> None:
    ends = part_ends(length, section)
    sizes = {
        "train": ends["train"],
        "validation": ends["validation"] - ends["train"],
        "test": ends["test"] - ends["validation"],
    }
    problems = [
        Problem(
            f"too little text for the {part} part",
            path="data.path" if part == "train" else f"data.{part}",
            found=f"{size:,} of {length:,} tokens",
            expected=f"at least {_FEWEST_TOKENS}",
            fix="give a longer text" if part == "train" else "raise the share, or a longer text",
        )
        for part, size in sizes.items()
        if size < _FEWEST_TOKENS
    ]
    if problems:
        raise DataMistake(problems)


def _report(ends: Mapping[PartName, int]) -> SplitReport:
    rows = {
        "train": ends["train"],
        "validation": ends["validation"] - ends["train"],
        "test": ends["test"] - ends["validation"],
    }
    return SplitReport(
        kind="position",
        reason="the beginning of the text trains and its end tests: no part lies inside another",
        rows=rows,
        class_shares={},
        target_mean={},
        groups={},
        groups_on_two_sides=0,
        time_ranges={},
        future_rows_in_training=0,
        duplicate_rows=0,
    )


def _not_whole(written: str, why: str) -> DataMistake:
    return DataMistake(
        Problem(
            f"the token file is not whole: {why}",
            path="data.path",
            fix="write it again from its text",
            place=Place(written),
        )
    )
