"""Text preparation: read, tokenise and split by position; a new text for a fitted model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data_traits import Mixture, Uniform
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json, hash_bytes, hash_file, hash_value
from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.messages import some
from trainwright.data.base.token_inputs import Mask, TokenInputs, Tokens
from trainwright.data.columns.class_target import NextToken
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.formats.file_format import known_format
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.split_report import SplitReport
from trainwright.data.text.documents import (
    END,
    Documents,
    SourceSize,
    count_within,
    find_documents,
    no_sources,
)
from trainwright.data.text.recorded_division import read_division
from trainwright.data.text.stream_tokens import (
    StreamedTokens,
    count_tokens,
    document_stops,
    keep_tokens,
    stream_pieces,
)
from trainwright.data.text.text_sources import (
    PARTS,
    TextSource,
    check_documents,
    source_starts,
    split_documents,
)
from trainwright.data.text.token_file import EncodedText, is_token_file, read_head, read_token_file
from trainwright.data.types import Prepared

SEGMENT_TOKENS = 256
"""Tokens of an evaluation segment: neighbouring tokens are dependent, so the bootstrap resamples
segments, not tokens."""

SOURCE = "source"
"""Column of the source name, for slices, in the frame of a mixed text."""


@final
@dataclass(frozen=True, slots=True)
class RawTokens(Raw):
    """A tokenised text with its sources and parts."""

    text: EncodedText
    sources: tuple[TextSource, ...]
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """Notes on the text, and on what its tokens leave of it."""
        return tuple(("note", note) for note in (*self.notes, *self.text.vocabulary.losses()))


def read_tokens(
    section: TokenData, folder: Path, tell: Callable[[str], None] = lambda _: None
) -> RawTokens:
    """Read the section's text or token file, split it and tokenise it; `tell` gets the progress.

    The vocabulary is fitted on the training part only.

    Raises:
        DataMistake: it is missing, not UTF-8, too short, a token file that is not whole, or has no
            sources to mix.
        MissingExtra: the vocabulary needs a library that is not installed.
    """
    file = folder / section.path
    notes: tuple[str, ...] = ()
    if is_token_file(file):
        encoded = read_token_file(file, section.path)
        length = len(encoded.tokens)
        sources = read_division(read_head(file, section.path).about, length, section)
        if isinstance(section.sampling, Mixture) and not any(one.name for one in sources):
            raise no_sources(section, "a token file, which does not record them")
        sha256, size = hash_file(file), file.stat().st_size
        version = FileVersion(section.path, sha256, size, length, file_sha256=sha256)
        files: tuple[FileVersion, ...] = (version,)
        stops = np.append(encoded.documents[1:], length)
        sources = sources or split_documents(stops, (), section)
    else:
        documents = find_documents(section, folder).telling(tell)
        encoded, sources, said = _encoded_documents(documents, section, folder)
        files, notes = documents.files, (*documents.notes, *said)
        length = len(encoded.tokens)
        if len(files) == 1:
            files = (replace(files[0], rows=length),)
    check_documents(sources, encoded.documents, section)
    facts = DataFacts(
        rows=length,
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=files,
        given=frozenset(),
        part_rows=_sizes(sources),
        documents={source.name: _training_lengths(encoded, source) for source in sources},
    )
    return RawTokens(encoded, sources, facts, notes)


def prepare_tokens(raw: RawTokens, section: TokenData) -> Prepared:
    """Parts with segments as rows."""
    text, sources = raw.text, raw.sources
    apart = section.windows != "across"
    train, validation, test = (text_segments(text, name, sources, apart=apart) for name in PARTS)
    target = NextToken(text.vocabulary.size)
    return Prepared(
        train=train,
        validation=validation,
        test=test,
        features=text.vocabulary,
        target=target,
        split=_report(sources, text),
        version=hash_value(
            {
                "scheme": 1,
                "files": [file.sha256 for file in raw.facts.files],
                "ends": {str(part): end for part, end in sources[-1].ends.items()},
                "vocabulary": text.vocabulary.to_json(),
                **_documents_of_version(text, section),
                **_sources_of_version(sources),
            }
        ),
    )


def _sources_of_version(sources: Sequence[TextSource]) -> dict[str, Json]:
    if not sources[0].name:
        return {}
    return {"sources": [[one.name, one.start, *one.ends.values()] for one in sources]}


def _documents_of_version(text: EncodedText, section: TokenData) -> dict[str, Json]:
    if len(text.documents) < 2:
        return {}
    starts = hash_bytes(text.documents.astype("<i8").tobytes())
    return {"documents": starts, "windows": section.windows, "long": section.long_documents}


def _encoded_documents(documents: Documents, section: TokenData, folder: Path) -> StreamedTokens:
    """Tokenise documents, with their sources."""
    divided = section.separator and not documents.several
    if section.vocabulary not in ("characters", "bytes") or divided:
        return stream_pieces(documents, section, folder)
    counted = count_tokens(documents, section.vocabulary)
    sources = split_documents(counted.stops, documents.sources, section)
    vocabulary = counted.vocabulary(section.vocabulary, [one.ends["train"] for one in sources])
    return StreamedTokens(keep_tokens(documents, vocabulary, counted, section, folder), sources, ())


def _training_lengths(text: EncodedText, source: TextSource) -> tuple[int, ...]:
    """Token counts of the documents of the training part."""
    start, end = source.bounds("train")
    first, last = np.searchsorted(text.documents, (start, end))
    return tuple(np.diff(np.append(text.documents[first:last], end)).tolist())


def text_segments(
    text: EncodedText, name: PartName, sources: Sequence[TextSource], *, apart: bool
) -> Part:
    """A part of each source as segments, concatenated by source; `apart` keeps documents separate.
    The first token of a source has no context and is not predicted."""
    parts = []
    for source in sources:
        start, end = source.bounds(name)
        if apart:
            parts.append(document_part(text, name, start, end))
        else:
            begin = max(source.start + 1, start)
            parts.append(token_part(text.tokens, name, begin, end, text.mask))
    if not sources[0].name:
        inputs = TokenInputs.of_kind(parts[0].inputs)
        counted = replace(inputs, byte_counts=text.vocabulary.byte_counts())
        return replace(parts[0], inputs=counted)
    segments = [TokenInputs.of_kind(part.inputs) for part in parts]
    lengths = np.concatenate([one.lengths for one in segments])
    starts = np.concatenate([one.starts for one in segments])
    places = source_starts(sources)
    documents = text.documents if apart else places.starts
    units = accumulate((int(part.units.max(initial=-1)) + 1 for part in parts[:-1]), initial=0)
    frame = pl.concat(
        part.frame.with_columns(pl.lit(source.name).alias(SOURCE))
        for part, source in zip(parts, sources, strict=True)
    )
    return Part(
        name,
        frame,
        TokenInputs(
            text.tokens,
            starts,
            lengths,
            documents,
            places,
            text.mask,
            text.vocabulary.byte_counts(),
        ),
        np.concatenate([part.target for part in parts]),
        starts,
        np.concatenate([part.units + n for part, n in zip(parts, units, strict=True)]),
    )


def token_part(tokens: Tokens, name: PartName, start: int, end: int, mask: Mask = "all") -> Part:
    """The tokens from `start` to `end` as segments, each a row and a unit; the first token of a
    text has no context and is not predicted."""
    starts: Integers = np.arange(start, end, SEGMENT_TOKENS, dtype=np.int64)
    lengths = np.minimum(SEGMENT_TOKENS, end - starts)
    frame = pl.DataFrame({"position": starts, "tokens": lengths})
    inputs = TokenInputs(tokens, starts, lengths, mask=mask)
    target = NextToken(0).encode(pl.Series(inputs.target_counts()))
    return Part(name, frame, inputs, target, starts, np.arange(len(starts)))


def document_part(text: EncodedText, name: PartName, start: int, end: int) -> Part:
    """The documents from `start` to `end` as segments that do not cross documents; a document is a
    unit, and its first token is not predicted."""
    first, last = np.searchsorted(text.documents, (start, end))
    begins = text.documents[first:last]
    counted = np.maximum(np.diff(np.append(begins, end)) - 1, 0)
    pieces = -(-counted // SEGMENT_TOKENS)
    units = np.repeat(np.arange(len(begins)), pieces)
    place = count_within(pieces)
    starts = begins[units] + 1 + place * SEGMENT_TOKENS
    lengths = np.minimum(SEGMENT_TOKENS, np.repeat(counted, pieces) - place * SEGMENT_TOKENS)
    inputs = TokenInputs(text.tokens, starts, lengths, text.documents, mask=text.mask)
    frame = pl.DataFrame({"position": starts, "tokens": lengths})
    target = NextToken(0).encode(pl.Series(inputs.target_counts()))
    return Part(name, frame, inputs, target, starts, units)


def text_part(
    text: str,
    vocabulary: TextVocabulary,
    section: TokenData,
    found: Sequence[SourceSize] = (),
) -> Part:
    """Another text as a part, to evaluate a fitted model. Its documents end with the section's
    separator; without one, if packed, padded or mixed, with U+001E. The last of the sources `found`
    has all remaining documents.

    Raises:
        DataMistake: it is one token long.
    """
    apart = section.windows != "across"
    stops = document_stops([text], section.separator or (END if apart or found else ""))
    starts = [0, *stops[:-1].tolist()]
    encoded = vocabulary.encode_each(
        [text[a:b] for a, b in zip(starts, stops.tolist(), strict=True)]
    )
    tokens = np.concatenate(encoded)
    if len(tokens) < 2:
        raise DataMistake(
            Problem("the text is too short to evaluate", path="DATA", found=f"{len(tokens)} tokens")
        )
    ends = np.cumsum([len(one) for one in encoded])
    sources, start = [], 0
    names = [one.name for one in found] or [""]
    lasts = [*accumulate(one.documents for one in found[:-1]), len(ends)]
    for name, last in zip(names, lasts, strict=True):
        end = int(ends[last - 1])
        sources.append(TextSource(name, start, {"train": start, "validation": start, "test": end}))
        start = end
    begins = np.append(0, ends[:-1])
    return text_segments(EncodedText(tokens, vocabulary, begins), "test", sources, apart=apart)


def _sizes(sources: Sequence[TextSource]) -> dict[str, int]:
    """Token counts of the parts."""
    sizes = [source.sizes() for source in sources]
    return {str(part): sum(one[part] for one in sizes) for part in PARTS}


def _report(sources: Sequence[TextSource], text: EncodedText) -> SplitReport:
    what = "the text"
    if sources[0].name:
        names = some([repr(source.name) for source in sources])
        what = f"each of {len(sources)} sources ({names})"
    reason = f"the beginning of {what} trains, its end tests: the parts do not overlap"
    documents = len(text.documents)
    ends = [end for one in sources for end in one.ends.values()]
    if documents > 1 and np.isin(ends, np.append(text.documents, len(text.tokens))).all():
        reason += f", and none of its {documents:,} documents is split"
    elif documents > 1:
        reason += "; a source of one document is split within it"
    return SplitReport(
        kind="position",
        reason=reason,
        rows=_sizes(sources),
        class_shares={},
        target_mean={},
        groups={},
        groups_on_two_sides=0,
        time_ranges={},
        future_rows_in_training=0,
        duplicate_rows=0,
    )


def new_text(
    data: str, vocabulary: TextVocabulary, section: TokenData, reading: Reading
) -> tuple[Part, tuple[FileVersion, ...]]:
    """A text, a folder of texts, or the contract's column of a table as a part for evaluation, and
    its source files. If the training mixed sources, the text is treated as one source.

    Raises:
        DataMistake: it cannot be read, or is a single token.
    """
    # A plain text has no columns, whatever the source of the training texts.
    column = section.text if Path(data).is_dir() or known_format(data) else ""
    told = section.model_copy(update={"path": data, "text": column, "reading": reading})
    alone: tuple[SourceSize, ...] = ()
    if isinstance(section.sampling, Mixture) and not (column or Path(data).is_dir()):
        told = told.model_copy(update={"sampling": Uniform()})
        alone = (SourceSize(Path(data).name, 1),)
    try:
        documents = find_documents(told, Path())
        text = "".join(documents.blocks())
    except DataMistake as mistake:
        raise DataMistake([_on_data(problem) for problem in mistake.problems]) from mistake
    if documents.several:
        told = told.model_copy(update={"separator": END})
    return text_part(text, vocabulary, told, documents.sources or alone), documents.files


def _on_data(problem: Problem) -> Problem:
    return replace(problem, path="DATA") if problem.path == "data.path" else problem
