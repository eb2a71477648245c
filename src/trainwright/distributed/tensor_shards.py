"""Shards of distributed tensors (`DTensor`): what a rank holds of each, and writing into it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


TENSOR = "tensor"
"""Dimension of a mesh whose ranks divide the matrices of a model."""


class Place(NamedTuple):
    """Where a shard lies in its tensor: its first index, and the shape of the whole tensor. Of
    ranks that hold the same shard, one writes it."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]
    is_written: bool


def is_sharded(tensor: Tensor) -> TypeGuard[DTensor]:
    """Whether ranks hold shards of it."""
    # If it has not been imported, which takes half a second, there is no DTensor.
    sharding = sys.modules.get("torch.distributed.tensor")
    return sharding is not None and isinstance(tensor, sharding.DTensor)


def local_of(tensor: Tensor) -> Tensor:
    """The shard that this rank holds, in the same memory; the tensor itself if it is whole."""
    tensor = tensor.detach()
    return tensor.to_local() if is_sharded(tensor) else tensor


def place_of(tensor: DTensor) -> Place:
    """Where the shard of this rank lies."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh, placements = tensor.device_mesh, tensor.placements
    _, offset = compute_local_shape_and_global_offset(tensor.shape, mesh, placements)
    at = mesh.get_coordinate()
    assert at is not None, "this rank is in the mesh of its tensors"
    copies = [index for index, one in zip(at, placements, strict=True) if one == Replicate()]
    return Place(tuple(offset), tuple(tensor.shape), not any(copies))


def whole_of_parts(tensor: Tensor, parameter: Tensor) -> Tensor:
    """The whole of a tensor that tensor parallelism has divided, in the usual order of its rows;
    all ranks of its mesh call this. Others, among them shards of data ranks, as they are."""
    if is_sharded(tensor) and TENSOR in (tensor.device_mesh.mesh_dim_names or ()):
        whole: Tensor = tensor.full_tensor().detach()
        order = getattr(parameter, "row_order", None)
        return whole if order is None else torch.empty_like(whole).index_put_((order,), whole)
    return tensor


def in_own_order(value: Tensor, parameter: Tensor) -> Tensor:
    """A whole value with its rows in the order that a divided parameter has them in: such that each
    rank has contiguous ones. Its attribute `row_order` says which, where it is not the usual."""
    order = getattr(parameter, "row_order", None)
    return value if order is None else value[order]


def write_into(tensor: Tensor, value: Tensor) -> None:
    """Write a whole value into a tensor, or into the shard that this rank holds of it."""
    with torch.no_grad():
        if not is_sharded(tensor):
            tensor.copy_(value)
            return
        local, offset = local_of(tensor), place_of(tensor).offset
        box = tuple(slice(a, a + n) for a, n in zip(offset, local.shape, strict=True))
        local.copy_(value[box])
