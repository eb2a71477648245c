"""Tensor parallelism: the matrices of a model divided over ranks that work on the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from trainwright.distributed.data_parallel import (
    LIMIT,
    DataParallel,
    notice_lost_peers,
    sum_gradients,
)
from trainwright.distributed.rank_share import RankShare
from trainwright.distributed.strategy import Packet, local_tensors


@runtime_checkable
class Divisible(Protocol):
    """Network whose matrices can be divided over ranks."""

    def divide(self, mesh: DeviceMesh) -> None:
        """Divide the parameters over a mesh of one dimension, in place; they become `DTensor`. The
        network takes and gives whole tensors as before, the same on each rank."""
        ...


@final
class TensorParallel:
    """A rank of a mesh of data and tensor ranks.

    The tensor ranks of a model read the same micro-batches and exchange activations in each pass;
    the gradients of a part are summed over the data ranks afterwards. So memory that runs out on
    one rank ends the training: the others wait for it inside the pass.

    Args:
        device: of this rank.
        tensor: ranks that divide a model; a divisor of the number of ranks, neighbours.
    """

    def __init__(self, device: torch.device, tensor: int) -> None:
        self._everyone = DataParallel(device)
        self.rank, self.world_size = self._everyone.rank, self._everyone.world_size
        self.device = device
        self.part = self.rank % tensor
        self.share = RankShare(self.rank // tensor, self.world_size // tensor)
        self._mesh = _build_mesh(device, tensor)
        self._parameters: list[nn.Parameter] = []

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model, with the weights of rank 0, of which this rank keeps its part."""
        assert isinstance(model, Divisible), "the rules refuse other models"
        self._everyone.wrap(model)
        with notice_lost_peers():
            model.divide(self._mesh["tensor"])
        self._parameters = list(model.parameters())
        return model

    @contextmanager
    def micro_batch(self, model: nn.Module, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        """Activations are exchanged inside the passes."""
        with notice_lost_peers():
            yield

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets, in which each model counts once, and sum the gradients."""
        if self.part:
            packet = packet._replace(loss=0.0, targets=0)
        unused = sum(parameter.grad is None for parameter in self._parameters)
        with notice_lost_peers():
            combined, some_unused = self._everyone.exchange(packet, unused)
            if not combined.out_of_memory:
                self._place_gradients()
                group = self._mesh.get_group("data")
                sum_gradients(self._parameters, self.device, some_unused=some_unused, group=group)
        return combined

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks."""
        return self._everyone.gather(rows)

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """Norm of all parts together."""
        norms = torch._foreach_norm(local_tensors(gradients), 2.0)
        own = torch.stack(
            [
                norm if not self.part or _is_divided(gradient) else norm.zero_()
                for norm, gradient in zip(norms, gradients, strict=True)
            ]
        )
        squares = own.double().square().sum()
        with notice_lost_peers():
            distributed.all_reduce(squares, group=self._mesh.get_group("tensor"))
        norm = squares.sqrt()
        return norm.item() if norm.is_cpu else norm.float()

    def _place_gradients(self) -> None:
        """Give gradients the placements of their parameters: those of weights that act on some of
        the positions are still sums over some of them."""
        for parameter in self._parameters:
            gradient: Any = parameter.grad
            if isinstance(parameter, DTensor) and gradient is not None:
                placed = gradient.redistribute(placements=parameter.placements)
                if placed.to_local().stride() != parameter.to_local().stride():
                    placed = torch.empty_like(parameter).copy_(placed)
                parameter.grad = placed


def _is_divided(gradient: Tensor) -> bool:
    return isinstance(gradient, DTensor) and any(one.is_shard() for one in gradient.placements)


def _build_mesh(device: torch.device, tensor: int) -> DeviceMesh:
    """Mesh of data and tensor ranks, whose calls end as those of all ranks do."""
    ranks = torch.arange(distributed.get_world_size()).view(-1, tensor)
    groups = [
        distributed.new_subgroups_by_enumeration(each.tolist(), timeout=LIMIT)[0]  # type: ignore[no-untyped-call]
        for each in (ranks.T, ranks)
    ]
    return DeviceMesh.from_group(groups, device.type, ranks, mesh_dim_names=("data", "tensor"))
