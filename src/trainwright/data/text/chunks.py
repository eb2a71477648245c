"""Documents cut into pieces that a model with a limited context can see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from trainwright.data.base.table import Integers

LongDocuments = Literal["split", "cut"]


@final
@dataclass(frozen=True, slots=True)
class Chunks:
    """Pieces in the order of their documents: `documents` [P] says of which document each is,
    `offsets` [P] where in it a piece begins, `lengths` [P] its inputs, each followed by the token
    that it predicts. `cut` documents lost `lost` of their tokens."""

    documents: Integers
    offsets: Integers
    lengths: Integers
    cut: int
    lost: int


def cut_documents(lengths: Sequence[int] | Integers, context: int, long: LongDocuments) -> Chunks:
    """Pieces of at most `context` inputs of documents of `lengths` tokens. A document of one token
    predicts nothing and has no piece."""
    inputs = np.maximum(np.asarray(lengths, dtype=np.int64) - 1, 0)
    over = inputs > context
    kept = np.minimum(inputs, context) if long == "cut" else inputs
    count = -(-kept // context)
    documents = np.repeat(np.arange(len(kept)), count)
    place = np.arange(len(documents)) - np.repeat(np.cumsum(count) - count, count)
    offsets = place * context
    return Chunks(
        documents=documents,
        offsets=offsets,
        lengths=np.minimum(context, kept[documents] - offsets),
        cut=int(over.sum()) if long == "cut" else 0,
        lost=int((inputs - kept).sum()),
    )
