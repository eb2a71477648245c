"""Batch of documents that are laid out row by row, packed or padded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from trainwright.data.base.inputs.token_inputs import TokenInputs
from trainwright.data.base.table import Integers
from trainwright.data.loading.batch import Batch

NO_TARGET = -100
"""Target of a padding position."""


class TokenPlaces(NamedTuple):
    """Row and column of each token that predicts one, its position in its chunk and its position in
    the text, int64 [T]."""

    row: Integers
    column: Integers
    within: Integers
    source: Integers


def document_batch(
    inputs: TokenInputs,
    rows: Integers,
    width: int,
    places: TokenPlaces,
    device: torch.device,
    *,
    positions: bool = False,
) -> Batch:
    """`tokens` and `target`, and `positions` if asked for, each int64 [B, width], on the device;
    `rows` int64 [B] are their numbers. What the inputs know beside the targets stands behind
    them, [B, width, K]."""
    shape, at = (len(rows), width), (places.row, places.column)
    values = {
        "tokens": inputs.tokens[places.source],
        "positions": places.within,
        "target": inputs.tokens[places.source + 1],
    }
    tensors = {}
    for name in values if positions else ("tokens", "target"):
        array = np.full(shape, NO_TARGET if name == "target" else 0, dtype=np.int64)
        array[at] = values[name]
        tensors[name] = torch.from_numpy(array).to(device, non_blocking=True)
    for name, found in inputs.beside(places.source + 1).items():
        whole = np.zeros((*shape, found.shape[1]), found.dtype)
        whole[at] = found
        tensors[name] = torch.from_numpy(whole).to(device, non_blocking=True)
    batch = Batch(tensors, rows=rows)
    if isinstance(inputs.mask, str):
        return batch
    counted = np.zeros(shape, dtype=np.bool_)
    counted[at] = inputs.mask[places.source + 1]
    return batch.with_mask(torch.from_numpy(counted))


def count_document_targets(inputs: TokenInputs, places: TokenPlaces) -> int:
    """How many of the tokens at these places predict one that counts."""
    if isinstance(inputs.mask, str):
        return len(places.source)
    return int(np.count_nonzero(inputs.mask[places.source + 1]))
