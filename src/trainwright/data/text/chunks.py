"""Documents split into chunks of at most the context length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from trainwright.data.base.table import Integers

LongDocuments = Literal["split", "cut", "exclude"]


@final
@dataclass(frozen=True, slots=True)
class Chunks:
    """Chunks in document order: `documents` [P] is the document of each, `offsets` [P] its start in
    the document, `lengths` [P] its number of inputs, each followed by the token that it predicts.
    `cut` documents were truncated, or excluded, by a total of `lost` tokens."""

    documents: Integers
    offsets: Integers
    lengths: Integers
    cut: int
    lost: int


def cut_documents(lengths: Sequence[int] | Integers, context: int, long: LongDocuments) -> Chunks:
    """Split documents of `lengths` tokens into chunks of at most `context` inputs. A document of
    one token predicts nothing and has no chunk, nor has an excluded one."""
    inputs = np.maximum(np.asarray(lengths, dtype=np.int64) - 1, 0)
    over = inputs > context
    kept = np.minimum(inputs, context) if long == "cut" else inputs
    if long == "exclude":
        kept = np.where(over, 0, inputs)
    count = -(-kept // context)
    documents = np.repeat(np.arange(len(kept)), count)
    offsets = count_within(count) * context
    return Chunks(
        documents=documents,
        offsets=offsets,
        lengths=np.minimum(context, kept[documents] - offsets),
        cut=int(over.sum()) if long != "split" else 0,
        lost=int((inputs - kept).sum()),
    )


def count_within(counts: Integers) -> Integers:
    """0, 1, ... up to each count, one after the other."""
    ends = np.cumsum(counts)
    return np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
