"""A text as one sequence of tokens: read, divided by position, and prepared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import assert_never, final

import numpy as np
import polars as pl

from trainwright.contract.tokens import TokenData
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.files import Json
from trainwright.core.hashing import hash_bytes, hash_file, hash_value
from trainwright.data.documents import END, Documents, find_documents
from trainwright.data.prepared import Prepared
from trainwright.data.reading import DataFacts
from trainwright.data.sources import FileVersion
from trainwright.data.split_report import SplitReport
from trainwright.data.subwords import read_pieces, train_pieces
from trainwright.data.table import Integers, Part, PartName, TokenInputs
from trainwright.data.target import NextToken
from trainwright.data.target_column import TargetFacts
from trainwright.data.token_file import EncodedText, is_token_file, read_token_file
from trainwright.data.token_stream import count_tokens, keep_tokens
from trainwright.data.vocabulary import TextVocabulary, Tokens, fit_characters

STRETCH = 256
"""Tokens of a stretch that is judged as one: neighbours in a text depend on each other, so the
bootstrap draws stretches, not tokens."""

_FEWEST_TOKENS = 64
_PARTS: tuple[PartName, ...] = ("train", "validation", "test")


@final
@dataclass(frozen=True, slots=True)
class RawTokens:
    """A text as tokens, and where each part ends: the position after its last token."""

    text: EncodedText
    ends: Mapping[PartName, int]
    facts: DataFacts
    notes: tuple[str, ...] = ()


def read_tokens(section: TokenData, folder: Path) -> RawTokens:
    """Read the text or token file that the section names, divide it, and encode it.

    A vocabulary is that of the training part alone.

    Raises:
        DataMistake: it is missing, not UTF-8, too short, or a token file that is not whole.
        MissingExtra: the vocabulary needs a library that is not installed.
    """
    file = folder / section.path
    notes: tuple[str, ...] = ()
    if is_token_file(file):
        encoded = read_token_file(file, section.path)
        length = len(encoded.tokens)
        sha256, size = hash_file(file), file.stat().st_size
        version = FileVersion(section.path, sha256, size, length, file_sha256=sha256)
        files: tuple[FileVersion, ...] = (version,)
        stops = np.append(encoded.documents[1:], length)
        ends = _at_ends(part_ends(length, section), stops)
    else:
        documents = find_documents(section, folder)
        encoded, ends = _encoded_documents(documents, section, folder)
        files, notes = documents.files, documents.notes
        length = len(encoded.tokens)
        if len(files) == 1:
            files = (replace(files[0], rows=length),)
    _check_length(ends)
    _check_documents(encoded, section)
    starts = encoded.documents[encoded.documents < ends["train"]]
    lengths = np.diff(np.append(starts, ends["train"]))
    facts = DataFacts(
        rows=length,
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=files,
        given=frozenset(),
        part_rows={str(part): size for part, size in _sizes(ends).items()},
        documents=tuple(lengths.tolist()),
    )
    return RawTokens(encoded, ends, facts, notes)


def prepare_tokens(raw: RawTokens, section: TokenData) -> Prepared:
    """The parts as stretches, each a row."""
    text, ends = raw.text, raw.ends
    parts: dict[PartName, Part] = {}
    start = 0
    for name in _PARTS:
        if section.windows != "across":
            parts[name] = document_part(text, name, start, ends[name])
        else:
            # The first token of the text has nothing before it.
            parts[name] = token_part(text.tokens, name, max(1, start), ends[name])
        start = ends[name]
    target = NextToken(text.vocabulary.size)
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=text.vocabulary,
        target=target,
        split=_report(ends, len(text.documents)),
        version=hash_value(
            {
                "scheme": 1,
                "files": [file.sha256 for file in raw.facts.files],
                "ends": {str(part): end for part, end in ends.items()},
                "vocabulary": text.vocabulary.to_json(),
                **_documents_of_version(text, section),
            }
        ),
    )


def _documents_of_version(text: EncodedText, section: TokenData) -> dict[str, Json]:
    if len(text.documents) < 2:
        return {}
    starts = hash_bytes(text.documents.astype("<i8").tobytes())
    return {"documents": starts, "windows": section.windows, "long": section.long_documents}


def _encoded_documents(
    documents: Documents, section: TokenData, folder: Path
) -> tuple[EncodedText, dict[PartName, int]]:
    """The tokens of documents and where the parts end in them; mapped, if no token has anything to
    do with its neighbours."""
    divided = section.separator and not documents.several
    if section.vocabulary not in ("characters", "bytes") or divided:
        mark = END if documents.several else section.separator
        text = "".join(documents.blocks())
        return _encoded(text, section.model_copy(update={"separator": mark}), folder)
    counted = count_tokens(documents, section.vocabulary)
    ends = _at_ends(part_ends(counted.length, section), counted.stops)
    _check_length(ends)
    vocabulary = counted.vocabulary(section.vocabulary, ends["train"])
    return keep_tokens(documents, vocabulary, counted, section, folder), ends


def _encoded(
    text: str, section: TokenData, folder: Path
) -> tuple[EncodedText, dict[PartName, int]]:
    """The tokens of a text and where its parts end in them. No token reaches from one document, or
    one part, into another."""
    stops = _document_stops(text, section.separator)
    ends = _at_ends(part_ends(len(text), section), stops)
    _check_length(ends)
    vocabulary = _vocabulary(text[: ends["train"]], section, folder)
    cuts = np.unique(np.concatenate([stops, list(ends.values())]))
    starts = np.append(0, cuts[:-1])
    pieces = [text[a:b] for a, b in zip(starts.tolist(), cuts.tolist(), strict=True)]
    encoded = vocabulary.encode_each(pieces)
    places = np.cumsum([len(one) for one in encoded])
    token_ends = {name: int(places[np.searchsorted(cuts, end)]) for name, end in ends.items()}
    documents = np.append(0, places[np.searchsorted(cuts, stops[:-1])])
    return EncodedText(np.concatenate(encoded), vocabulary, documents), token_ends


def _vocabulary(train: str, section: TokenData, folder: Path) -> TextVocabulary:
    match section.vocabulary:
        case "characters":
            return fit_characters(train)
        case "bytes":
            return TextVocabulary("bytes")
        case "bpe":
            return TextVocabulary("subwords", train_pieces([train], section.vocabulary_size))
        case "tokenizer":
            return TextVocabulary(
                "subwords", read_pieces(folder / section.tokenizer, section.tokenizer)
            )
        case _:
            assert_never(section.vocabulary)


def _document_stops(text: str, separator: str) -> Integers:
    """Behind the last character of each document, which ends with its separator."""
    if not separator or not text:
        return np.array([len(text)], dtype=np.int64)
    lengths = [len(part) + len(separator) for part in text.split(separator)]
    lengths[-1] -= len(separator)
    stops = np.cumsum(lengths)
    # A text that ends with a separator has no empty document behind it.
    return np.unique(stops[stops > 0])


def _at_ends(ends: dict[PartName, int], stops: Integers) -> dict[PartName, int]:
    """Each part ends with the last document that lies in it whole; of one document, where it is."""
    if len(stops) < 2:
        return ends
    whole = {name: stops[stops <= end] for name, end in ends.items()}
    return {name: int(found[-1]) if len(found) else 0 for name, found in whole.items()}


def _check_documents(text: EncodedText, section: TokenData) -> None:
    if section.windows != "across" and len(text.documents) < 2:
        verb = "pack" if section.windows == "packed" else "pad"
        raise DataMistake(
            Problem(
                f"there are no documents to {verb}",
                path="data.windows",
                found="one document",
                expected="a separator between documents, or a token file with several",
                fix="add for example separator: followed by two line ends, or remove windows",
                place=Place(section.path),
            )
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


def document_part(text: EncodedText, name: PartName, start: int, end: int) -> Part:
    """The documents from `start` to `end` as stretches within one document each; a document is a
    unit, and its first token has nothing before it."""
    inside = (text.documents >= start) & (text.documents < end)
    begins = text.documents[inside]
    counted = np.maximum(np.diff(np.append(begins, end)) - 1, 0)
    pieces = -(-counted // STRETCH)
    units = np.repeat(np.arange(len(begins)), pieces)
    place = np.arange(len(units)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = begins[units] + 1 + place * STRETCH
    lengths = np.minimum(STRETCH, np.repeat(counted, pieces) - place * STRETCH)
    inputs = TokenInputs(text.tokens, starts, lengths, text.documents)
    frame = pl.DataFrame({"position": starts, "tokens": lengths})
    target = NextToken(0).encode(frame["tokens"])
    return Part(name, frame, inputs, target, starts, units)


def text_part(text: str, vocabulary: TextVocabulary, section: TokenData) -> Part:
    """Another text as a part, for judging a fitted model on it. Where documents were packed or
    padded they end with the section's separator, or with the mark U+001E.

    Raises:
        DataMistake: it is one token long.
    """
    apart = section.windows != "across"
    stops = _document_stops(text, (section.separator or END) if apart else "")
    starts = [0, *stops[:-1].tolist()]
    encoded = vocabulary.encode_each(
        [text[a:b] for a, b in zip(starts, stops.tolist(), strict=True)]
    )
    tokens = np.concatenate(encoded)
    if len(tokens) < 2:
        raise DataMistake(
            Problem("the text is too short to judge", path="DATA", found=f"{len(tokens)} tokens")
        )
    if not apart:
        return token_part(tokens, "test", 1, len(tokens))
    begins = np.cumsum([0, *(len(one) for one in encoded[:-1])])
    return document_part(EncodedText(tokens, vocabulary, begins), "test", 0, len(tokens))


def _sizes(ends: Mapping[PartName, int]) -> dict[PartName, int]:
    return {
        "train": ends["train"],
        "validation": ends["validation"] - ends["train"],
        "test": ends["test"] - ends["validation"],
    }


def _check_length(ends: Mapping[PartName, int]) -> None:
    problems = [
        Problem(
            f"too little text for the {part} part",
            path="data.path" if part == "train" else f"data.{part}",
            found=f"{size:,} of {ends['test']:,} tokens",
            expected=f"at least {_FEWEST_TOKENS}",
            fix="give a longer text" if part == "train" else "raise the share, or a longer text",
        )
        for part, size in _sizes(ends).items()
        if size < _FEWEST_TOKENS
    ]
    if problems:
        raise DataMistake(problems)


def _report(ends: Mapping[PartName, int], documents: int) -> SplitReport:
    reason = "the beginning of the text trains and its end tests: no part lies inside another"
    if documents > 1:
        reason += f", and none of its {documents:,} documents in two"
    return SplitReport(
        kind="position",
        reason=reason,
        rows={str(part): size for part, size in _sizes(ends).items()},
        class_shares={},
        target_mean={},
        groups={},
        groups_on_two_sides=0,
        time_ranges={},
        future_rows_in_training=0,
        duplicate_rows=0,
    )
