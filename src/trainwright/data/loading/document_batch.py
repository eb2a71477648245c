"""Batch of documents that are laid out row by row, packed or padded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from trainwright.data.base.table import Integers
from trainwright.data.loading.batch import Batch

TargetsThatCount = npt.NDArray[np.bool_] | Literal["all"]


def document_batch(
    arrays: Mapping[str, Integers],
    rows: Integers,
    device: torch.device,
    mask: TargetsThatCount,
    places: tuple[Integers, Integers, Integers],
) -> Batch:
    """`arrays` [B, T] by name, one of them `target`, on the device; `rows` int64 [B] are their
    numbers. `mask` is that of the tokens of the whole text; `places` are row, column and, in the
    text, the position of each token that predicts one."""
    tensors = {
        name: torch.from_numpy(one).to(device, non_blocking=True) for name, one in arrays.items()
    }
    batch = Batch(tensors, rows=rows)
    if isinstance(mask, str):
        return batch
    row, column, source = places
    counted = np.zeros(arrays["target"].shape, dtype=np.bool_)
    counted[row, column] = mask[source + 1]
    return batch.with_mask(torch.from_numpy(counted))
