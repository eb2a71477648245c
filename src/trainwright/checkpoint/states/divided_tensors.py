"""Tensors of which each rank holds a part (`DTensor`): their whole values, and back.

The rows of a matrix may lie in another order on the ranks than in the whole model, so that each
rank has contiguous ones; its parameter then has them in an attribute `row_order`.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor


def whole_value(tensor: Tensor, parameter: Tensor) -> Tensor:
    """The whole of a tensor of a parameter; all ranks of a divided one have to call it, in the same
    order. Others are returned as they are."""
    if not _is_divided(tensor):
        return tensor
    whole: Tensor = tensor.detach().full_tensor()  # type: ignore[attr-defined]
    order = getattr(parameter, "row_order", None)
    return whole if order is None else torch.empty_like(whole).index_put_((order,), whole)


def put_value(tensor: Tensor, value: Tensor, parameter: Tensor) -> Tensor:
    """Write a whole value into a tensor of a parameter, of which a divided one takes its part; the
    tensor."""
    if not _is_divided(tensor):
        return tensor.copy_(value)
    from torch.distributed.tensor import distribute_tensor

    order = getattr(parameter, "row_order", None)
    placed = distribute_tensor(
        (value if order is None else value[order]).to(tensor.device),
        tensor.device_mesh,  # type: ignore[attr-defined]
        tensor.placements,  # type: ignore[attr-defined]
        src_data_rank=None,
    )
    return tensor.copy_(placed)


def _is_divided(tensor: Tensor) -> bool:
    # If it has not been imported, which takes half a second, there is none.
    sharding = sys.modules.get("torch.distributed.tensor")
    return sharding is not None and isinstance(tensor, sharding.DTensor)
