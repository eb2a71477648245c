"""Contamination of held-out text by training text: shared n-grams of tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.row_overlap import verdict_of_share
from trainwright.data.base.inputs import Integers, Part
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.base.token_inputs import TokenInputs, Tokens
from trainwright.data.encoders.vocabulary import TokenEncoding
from trainwright.data.quality.finding import row_numbers_of
from trainwright.data.types import Prepared

COPIED = 0.8
"""Minimum share of a segment's tokens in repeated n-grams for a copy: the share from which Llama 2
calls a sample dirty (Touvron et al. 2023, arXiv:2307.09288, appendix A.6)."""

CHARACTERS, PIECES = 50, 13
"""N-gram lengths for characters or bytes and for subwords: GPT-3's 13 words (Brown et al. 2020,
arXiv:2005.14165, appendix C) are about 65 characters; in natural text 50-grams of characters do not
repeat by chance."""

COMMON = 10
"""N-grams with more occurrences in training are phrases, which new text has too (GPT-3's limit),
unless they make up most of the held-out text."""

_BY_CHANCE = 1e-3
_MOST_COUNTED = 1_000_000
_MANY = 10.0
_COPIED_ANYWAY = 0.95
_LONGEST = 200
_MOST = 0.5
MOST_KNOWN, _MOST_ASKED = 100_000_000, 5_000_000
"""Limits of the compared training and held-out tokens."""

_PIECE = 2**18
_BLOCK = 2**22
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], dtype=np.uint64)
_TABLE_BITS = 24

Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class TokenSpan(NamedTuple):
    """Half-open range of token positions."""

    start: int
    stop: int


class Overlap(NamedTuple):
    """N-gram overlap of N held-out segments: masks bool [N] of those compared and of those mostly
    covered by training n-grams; the n-gram length; and the share of the training tokens
    searched."""

    compared: Mask
    copied: Mask
    length: int
    searched: float


def spans_of(inputs: TokenInputs) -> list[TokenSpan]:
    """Token spans that the segments of a part predict, one for each source."""
    if not len(inputs):
        return []
    return [TokenSpan(int(start), int(stop)) for _, start, stop in inputs.source_spans()]


def sequence_length(tokens: Tokens, spans: Sequence[TokenSpan], *, pieces: bool) -> int:
    """N-gram length at which fewer than one in a thousand occurs in the spans by chance. A small
    vocabulary, DNA or log lines need longer n-grams than natural language.

    Two n-grams agree with collision probability C(n), the sum of their squared frequencies, which
    decays about geometrically in n. C is measured at lengths where chance collisions dominate
    copies, and extrapolated.
    """
    some = np.concatenate(
        [tokens[one.start : one.stop] for one in some_spans(spans, _MOST_COUNTED)]
    )
    total = _size(spans)
    least = PIECES if pieces else CHARACTERS
    size, agree, rate = 1, _agreement(hash_ngrams(some, TokenSpan(0, len(some)), 1)), 0.0
    while 2 * size <= least:
        longer = _agreement(hash_ngrams(some, TokenSpan(0, len(some)), 2 * size))
        if longer > _COPIED_ANYWAY * agree or longer * len(some) < _MANY:
            break
        rate = (longer / agree) ** (1 / size)
        size, agree = 2 * size, longer
    if not 0 < rate < 1:
        return least
    more = math.log(max(1.0, total * agree / _BY_CHANCE)) / -math.log(rate)
    return min(_LONGEST, max(least, size + math.ceil(more)))


def _agreement(hashes: Words) -> float:
    """Unbiased estimate of the collision probability."""
    if len(hashes) < 2:
        return 0.0
    ordered = np.sort(hashes)
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    counts = np.diff(ends, prepend=-1).astype(np.float64)
    return float((counts * (counts - 1)).sum()) / len(hashes) / (len(hashes) - 1)


def copied_segments(train: TokenInputs, held_out: TokenInputs, *, pieces: bool) -> Overlap:
    """Held-out segments that repeat training text. More than 100 million training or 5 million
    held-out tokens are subsampled evenly."""
    every = spans_of(train)
    known, asked = some_spans(every, MOST_KNOWN), some_spans(spans_of(held_out), _MOST_ASKED)
    length, searched = sequence_length(train.tokens, known, pieces=pieces), _size(known)
    compared = np.zeros(len(held_out), dtype=np.bool_)
    for span in asked:
        compared[_inside(held_out, span)] = True
    if not compared.any():
        return Overlap(compared, compared, length, searched / _size(every))
    hashes = [hash_ngrams(train.tokens, span, length) for span in asked]
    wanted = np.unique(np.concatenate(hashes))
    places = count_ngrams(train.tokens, known, wanted, length)
    copied, rare = (
        _covered(held_out, asked, [found[np.searchsorted(wanted, one)] for one in hashes], length)
        for found in (places > 0, (places > 0) & (places <= COMMON))
    )
    found = copied if copied[compared].mean() > _MOST else rare
    return Overlap(compared, found, length, searched / _size(every))


def _covered(
    held_out: TokenInputs, asked: Sequence[TokenSpan], repeated: Sequence[Mask], length: int
) -> Mask:
    """Mask [N] of segments mostly covered by repeated n-grams, whose start positions `repeated`
    flags for each span."""
    copied = np.zeros(len(held_out), dtype=np.bool_)
    for span, matches in zip(asked, repeated, strict=True):
        # Number of repeated n-grams that cover each token.
        change = np.zeros(span.stop - span.start + 1, dtype=np.int64)
        begins = np.flatnonzero(matches)
        np.add.at(change, begins, 1)
        np.add.at(change, begins + length, -1)
        held = np.append(0, np.cumsum(np.cumsum(change)[:-1] > 0))
        inside = _inside(held_out, span)
        first, lengths = held_out.starts[inside] - span.start, held_out.lengths[inside]
        copied[inside] = held[first + lengths] - held[first] >= COPIED * lengths
    return copied


def _inside(inputs: TokenInputs, span: TokenSpan) -> Integers:
    """Segments entirely inside a span."""
    ends = inputs.starts + inputs.lengths
    return np.flatnonzero((inputs.starts >= span.start) & (ends <= span.stop))


def count_ngrams(
    tokens: Tokens, known: Sequence[TokenSpan], wanted: Words, length: int
) -> Integers:
    """Number of occurrences of each of the wanted (ascending) n-grams."""
    places = np.zeros(len(wanted), dtype=np.int64)
    table = np.zeros(2**_TABLE_BITS, dtype=np.bool_)
    shift = np.uint64(64 - _TABLE_BITS)
    table[wanted >> shift] = True
    for span in known if len(wanted) else ():
        for block in _blocks(span, length):
            here = hash_ngrams(tokens, block, length)
            # The table rejects nearly all of them, which is cheaper than a search.
            here = here[table[here >> shift]]
            at = np.searchsorted(wanted, here)
            same = wanted[np.minimum(at, len(wanted) - 1)] == here
            places += np.bincount(at[same], minlength=len(wanted))
    return places


def _size(spans: Sequence[TokenSpan]) -> int:
    """Total number of tokens."""
    return sum(span.stop - span.start for span in spans)


def some_spans(spans: Sequence[TokenSpan], most: int) -> list[TokenSpan]:
    """The spans, or an even subsample of `most` tokens."""
    if _size(spans) <= most:
        return list(spans)
    pieces = [
        TokenSpan(start, min(start + _PIECE, span.stop))
        for span in spans
        for start in range(span.start, span.stop, _PIECE)
    ]
    return [pieces[at] for at in spread_rows(len(pieces), most // _PIECE).tolist()]


def _blocks(span: TokenSpan, length: int) -> Iterator[TokenSpan]:
    """Chunks of some million tokens, overlapping so that no n-gram is lost."""
    for start in range(span.start, max(span.start + 1, span.stop - length + 1), _BLOCK):
        yield TokenSpan(start, min(span.stop, start + _BLOCK + length - 1))


def hash_ngrams(tokens: Tokens, span: TokenSpan, length: int) -> Words:
    """64-bit hashes of the n-grams of `length` tokens of a span, uint64 [T - length + 1]; empty for
    a shorter span.

    Hashes of 1, 2, 4, ... tokens are built by doubling and combined to `length`.
    """
    count = span.stop - span.start - length + 1
    if count < 1:
        return np.empty(0, np.uint64)
    power = (np.asarray(tokens[span.start : span.stop]).astype(np.uint64) + np.uint64(1)) * _MIXERS[
        0
    ]
    whole = np.zeros(count, dtype=np.uint64)
    done, size = 0, 1
    while done < length:
        if length & size:
            whole = _joined(whole, power[done : done + count])
            done += size
        size *= 2
        if size <= length:
            power = _joined(power[: -size // 2], power[size // 2 :])
    return whole


def _joined(one: Words, other: Words) -> Words:
    """Hash of a concatenation. Unsigned products wrap around."""
    mixed: Words = (one ^ (one >> np.uint64(29))) * _MIXERS[1] + other
    return mixed


def audit_text(prepared: Prepared) -> tuple[AuditResult, ...]:
    """Validation and test segments that repeat training text; `rows` are positions of their first
    tokens."""
    overlap = text_copies(prepared, (prepared.validation, prepared.test))
    rows = np.concatenate([prepared.validation.rows, prepared.test.rows])[overlap.copied]
    compared = int(overlap.compared.sum())
    share = len(rows) / max(1, compared)
    message = (
        f"{len(rows):,} of {many(compared, 'held-out segment')} repeat training text: at least "
        f"{COPIED:.0%} of their tokens are in {overlap.length}-grams of it"
    )
    if compared < len(overlap.compared) or overlap.searched < 1:
        message += (
            f" ({compared / len(overlap.compared):.1%} of all held-out segments were compared with "
            f"{overlap.searched:.1%} of the training text)"
        )
    return (
        AuditResult(
            "text overlap",
            verdict_of_share(share, len(rows)),
            share,
            message,
            "text_overlap",
            len(rows),
            row_numbers_of(rows),
            fix="remove the repeated text from the files",
        ),
    )


def text_copies(prepared: Prepared, parts: Sequence[Part]) -> Overlap:
    """N-gram overlap of the segments of the parts [N] with the training text."""
    train = TokenInputs.of_kind(prepared.train.inputs.segments)
    vocabulary = TokenEncoding.of_kind(prepared.features).vocabulary
    inputs = [TokenInputs.of_kind(part.inputs.segments) for part in parts]
    held_out = replace(
        inputs[0],
        starts=np.concatenate([one.starts for one in inputs]),
        lengths=np.concatenate([one.lengths for one in inputs]),
    )
    return copied_segments(train, held_out, pieces=vocabulary.kind == "subwords")
