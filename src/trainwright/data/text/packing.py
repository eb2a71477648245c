"""Sequence packing: documents packed into windows of one length with little padding.

Best-fit decreasing (Ding et al. 2024, "Fewer truncations improve language modeling",
arXiv:2404.10830, section 3): chunks in descending length, each into the fullest window with room
for it. A chunk of n inputs predicts the n following tokens, so every token of a document but its
first is predicted once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import final

import numpy as np

from trainwright.data.base.inputs import Integers
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.text.documents import Chunks, LongDocuments, cut_documents


@final
@dataclass(frozen=True, slots=True)
class Packing:
    """Chunks in window order: `documents` [P] is the document of each, `offsets` [P] its start in
    the document, `lengths` [P] its number of inputs; window i holds the chunks from `ends[i - 1]`
    to `ends[i]` [W], all of the source `sources[i]` [W]. `cut` documents were truncated by a total
    of `lost` tokens."""

    documents: Integers
    offsets: Integers
    lengths: Integers
    ends: Integers
    sources: Integers
    context: int
    cut: int
    lost: int

    @property
    def padding(self) -> float:
        """Share of padding positions."""
        places = len(self.ends) * self.context
        return 1 - float(self.lengths.sum()) / places if places else 0.0


def pack_sources(
    sources: Sequence[Sequence[int] | Integers], context: int, long: LongDocuments
) -> Packing:
    """Pack the documents of each source, given by their token counts, into separate windows of
    `context` inputs. Documents are numbered over all sources."""
    packed = [_pack(cut_documents(lengths, context, long), context) for lengths in sources]
    pieces, ends = [one for one, _ in packed], [windows for _, windows in packed]
    documents = _before([len(lengths) for lengths in sources])
    firsts = _before([len(one.lengths) for one in pieces])
    return Packing(
        documents=np.concatenate([a.documents + n for a, n in zip(pieces, documents, strict=True)]),
        offsets=np.concatenate([one.offsets for one in pieces]),
        lengths=np.concatenate([one.lengths for one in pieces]),
        ends=np.concatenate([windows + n for windows, n in zip(ends, firsts, strict=True)]),
        sources=np.repeat(np.arange(len(ends)), [len(windows) for windows in ends]),
        context=context,
        cut=sum(one.cut for one in pieces),
        lost=sum(one.lost for one in pieces),
    )


def pack_inputs(inputs: TokenInputs, context: int, long: LongDocuments) -> Packing:
    """Pack the documents of a text by source."""
    codes = inputs.sources.of(inputs.document_starts())
    ends = np.cumsum(np.bincount(codes, minlength=len(inputs.sources.names)))[:-1]
    return pack_sources(np.split(inputs.document_lengths(), ends), context, long)


@lru_cache(maxsize=4)
def count_windows(sources: tuple[tuple[int, ...], ...], context: int, long: LongDocuments) -> int:
    """Number of windows of `pack_sources`."""
    return len(pack_sources(sources, context, long).ends)


def _pack(pieces: Chunks, context: int) -> tuple[Chunks, Integers]:
    """Chunks in window order, and the end of each window."""
    window = _windows_of(pieces.lengths, context)
    order = np.argsort(window, kind="stable")
    ordered = replace(
        pieces,
        documents=pieces.documents[order],
        offsets=pieces.offsets[order],
        lengths=pieces.lengths[order],
    )
    return ordered, np.cumsum(np.bincount(window))


def _before(counts: Sequence[int]) -> Sequence[int]:
    """Exclusive cumulative sums."""
    return [0, *accumulate(counts)][:-1]


def _windows_of(sizes: Integers, context: int) -> Integers:
    """Window of each chunk, numbered in order of opening."""
    window = np.empty(len(sizes), dtype=np.int64)
    rooms: list[int] = []  # the different sizes of free room, ascending
    having: dict[int, list[int]] = {}  # the windows with each
    opened = 0
    for piece in np.argsort(-sizes, kind="stable").tolist():
        size = int(sizes[piece])
        at = bisect_left(rooms, size)
        if at == len(rooms):
            chosen, room = opened, context
            opened += 1
        else:
            room = rooms[at]
            chosen = having[room].pop()
            if not having[room]:
                del rooms[at]
        window[piece] = chosen
        if left := room - size:
            if not having.get(left):
                insort(rooms, left)
                having[left] = []
            having[left].append(chosen)
    return window
