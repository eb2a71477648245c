"""Quality checks of the documents of a text corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.sections.data.tokens import TokenData
from trainwright.data.base.inputs import Integers
from trainwright.data.quality.content import text_quality
from trainwright.data.quality.copies import duplicates
from trainwright.data.quality.copies.near_duplicates import near_duplicates
from trainwright.data.quality.examined_data import ColumnView, ExaminedData
from trainwright.data.quality.finding import Finding, worst_first
from trainwright.data.sources.find_source import read_source
from trainwright.data.text.documents import END, document_rows, find_documents
from trainwright.data.text.prepare_text import RawTokens
from trainwright.data.text.token_file import is_token_file

MOST_CHARACTERS = 20_000_000
"""Longer texts are subsampled evenly by document."""

_DOCUMENTS, _PARAGRAPHS = "documents", "paragraphs"
_BLANK_LINE = "\n\n"
_UNDIVIDED = np.empty(0, dtype=np.int64)
_FIX = "inspect them, and remove or fix them in the text"

_Check = Callable[[ExaminedData], list[Finding]]

_OF_ANY_TEXT: tuple[_Check, ...] = (
    text_quality.repeated_text,
    text_quality.markup,
    text_quality.mojibake,
)
_OF_DOCUMENTS: tuple[_Check, ...] = (
    duplicates.exact_duplicates,
    text_quality.short_text,
    text_quality.long_text,
)


def document_faults(
    section: TokenData,
    folder: Path,
    parts: Integers = _UNDIVIDED,
    *,
    quick: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """Findings of the documents of a text, most severe first.

    `rows` of a finding are document indices, or table rows. A text of one document is checked by
    paragraph, for the faults that any text may have. A token file is not checked: its text is
    unavailable. `parts` int64 [D] is the part of each document (0 training), empty without a split.
    `quick` skips near duplicates and language identification.

    Raises:
        DataMistake: there is no text, or it is not in its encoding.
    """
    if is_token_file(folder / section.path):
        return ()
    data, left_out = _examine(section, folder, parts)
    found = _faults(data, quick, tell) if len(data) else []
    columns = (section.text,) if section.text else ()
    found = [replace(one, columns=columns, fix=_FIX if one.count else "") for one in found]
    return worst_first([*found, *left_out]) if len(data) else ()


def text_faults(
    name: str,
    texts: Sequence[str],
    parts: Integers,
    *,
    quick: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Finding, ...]:
    """Findings of texts that are called `name`, most severe first; `parts` int64 [N] is the part of
    each (0 training). Of many characters, a sample is examined."""
    step = max(1, -(-sum(map(len, texts)) // MOST_CHARACTERS))
    rows = np.arange(0, len(texts), step)
    data = _examined(name, list(texts[::step]), rows, parts[rows])
    found = [replace(one, fix=_FIX if one.count else "") for one in _faults(data, quick, tell)]
    if step > 1:
        text = f"the texts are long: only one in {step:,} of the {name} is checked"
        found.append(Finding("long_text", "info", text))
    return worst_first(found)


def _faults(data: ExaminedData, quick: bool, tell: Callable[[str], None]) -> list[Finding]:
    divided = data.looks[0].name != _PARAGRAPHS
    found = [one for check in _OF_ANY_TEXT for one in check(data)]
    # Consecutive separators give empty documents, which are not duplicates.
    written = data.looks[0].values.str.strip_chars().ne("").fill_null(value=False)
    full = data.take(written.arg_true().cast(pl.Int64).to_numpy())
    found += [one for check in _OF_DOCUMENTS for one in check(full)] if divided else []
    if not quick:
        tell("other languages")
        found += text_quality.other_language(data)
    if divided and not quick:
        tell("near duplicates")
        found += near_duplicates(full)
    return found


def document_parts(raw: RawTokens) -> Integers:
    """The part of each document, int64 [D]."""
    ends = [end for source in raw.sources for end in source.ends.values()]
    parts = len(raw.sources[0].ends)
    return np.searchsorted(ends, raw.text.documents, side="right").astype(np.int64) % parts


def _examine(
    section: TokenData, folder: Path, parts: Integers
) -> tuple[ExaminedData, tuple[Finding, ...]]:
    """Documents or paragraphs as rows, with a finding where they are subsampled."""
    found = find_documents(section, folder)
    step = max(1, -(-sum(len(block) for block in found.blocks()) // MOST_CHARACTERS))
    mark = END if found.several else section.separator
    left_out: tuple[Finding, ...] = ()
    if step > 1:
        what = _DOCUMENTS if mark else "parts"
        text = f"the text is long: only one in {step:,} of its {what} is checked"
        left_out = (Finding("long_text", "info", text),)
    if not mark:
        numbered = list(paragraphs(found.blocks(), step))
        places = np.array([place for place, _ in numbered], dtype=np.int64)
        pieces = [piece for _, piece in numbered]
        return _examined(_PARAGRAPHS, pieces, places, np.zeros_like(places)), left_out
    every = list(islice(divided_by(found.blocks(), mark), 0, None, step))
    numbers = np.arange(len(every)) * step
    of_row = parts[numbers] if len(parts) else np.zeros_like(numbers)
    rows = _rows_with_text(section, folder)[numbers] if section.text else numbers
    return _examined(section.text or _DOCUMENTS, every, rows, of_row), left_out


def paragraphs(blocks: Iterable[str], step: int = 1) -> Iterator[tuple[int, str]]:
    """Paragraphs of every `step`-th block, with their offset in the whole text; a paragraph that
    spans two blocks is cut at the boundary."""
    place, held = 0, ""
    for at, block in enumerate(blocks):
        # A blank line may span two blocks.
        whole = held + block
        text = whole.rstrip("\n")
        held = whole[len(text) :]
        pieces = text.split(_BLANK_LINE)
        if at % step == 0:
            yield from enumerate(pieces, place)
        place += len(pieces) - 1


def divided_by(blocks: Iterable[str], mark: str) -> Iterator[str]:
    """Split a text at its separators, which may span two blocks. A non-empty remainder after the
    last separator is a piece."""
    rest = ""
    for block in blocks:
        *pieces, rest = (rest + block).split(mark)
        yield from pieces
    if rest:
        yield rest


def _rows_with_text(section: TokenData, folder: Path) -> Integers:
    """Table rows that are documents; the others have no text."""
    source = read_source(section.path, folder, reading=section.reading)
    return document_rows(section, source)[0]


def _examined(name: str, pieces: list[str], rows: Integers, parts: Integers) -> ExaminedData:
    column = pl.Series(name, pieces, dtype=pl.String)
    look = ColumnView(name, "text", column, column, np.empty(0, dtype=np.int64), "")
    return ExaminedData(
        raw=column.to_frame(), looks=(look,), target="", task="none", parts=parts, rows=rows
    )
