"""Model parallelism: a model divided over ranks, its matrices by tensor and its blocks by pipeline
parallelism, combined with data ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

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
from trainwright.distributed.strategy import Packet
from trainwright.distributed.tensor_shards import TENSOR, local_of

AXES = ("pipeline", "data", TENSOR)


@runtime_checkable
class Divisible(Protocol):
    """Network that can be divided over ranks, in place."""

    def divide(self, mesh: DeviceMesh) -> None:
        """Divide the parameters over a mesh of one dimension; they become `DTensor`. The network
        takes and gives whole tensors as before, the same on each rank."""
        ...

    def cut(self, stage: int, stages: int, position_ranks: int) -> None:
        """Keep one of several stages, each of which takes what the one before it gives."""
        ...


class ModelParallel:
    """A rank of a mesh of pipeline, data and tensor ranks.

    The ranks of a model read the same micro-batches and exchange activations in each pass; the
    gradients of a part are summed over the data ranks afterwards. So memory that runs out on one
    rank ends the training: the others wait for it inside the pass.

    Args:
        device: of this rank.
        tensor: ranks that divide the matrices, neighbours.
        pipeline: stages; tensor x pipeline divides the number of ranks.
    """

    passes_together = True

    def __init__(self, device: torch.device, tensor: int, pipeline: int = 1) -> None:
        self._everyone = DataParallel(device)
        self.rank, self.world_size = self._everyone.rank, self._everyone.world_size
        self.device = device
        ranks = torch.arange(self.world_size).view(pipeline, -1, tensor)
        at = (ranks == self.rank).nonzero()[0].tolist()
        self.stage, self._tensor_rank = at[0], at[2]
        self.stages, self.tensor_ranks = pipeline, tensor
        self.part = self.stage * tensor + self._tensor_rank
        self.share = RankShare(at[1], ranks.shape[1])
        self.mesh = _build_mesh(device, ranks)
        self._parameters: list[nn.Parameter] = []

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:  # noqa: ARG002
        """The model, with the weights of rank 0, of which this rank keeps its part."""
        assert isinstance(model, Divisible), "the rules refuse other models"
        self._everyone.share_weights(model)
        with notice_lost_peers():
            self._divide(model)
        self._parameters = list(model.parameters())
        return model

    @contextmanager
    def micro_batch(self, model: nn.Module, *, last: bool) -> Iterator[None]:  # noqa: ARG002
        """Activations are exchanged inside the passes."""
        with notice_lost_peers():
            yield

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets, in which each model counts once, and sum the gradients."""
        if self._tensor_rank or self.stage < self.stages - 1:
            packet = packet._replace(loss=0.0, targets=0)
        unused = sum(parameter.grad is None for parameter in self._parameters)
        with notice_lost_peers():
            combined, some_unused = self._everyone.exchange(packet, unused)
            if not combined.out_of_memory:
                self._place_gradients()
                group = self.mesh.get_group("data")
                sum_gradients(self._parameters, self.device, some_unused=some_unused, group=group)
        return combined

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks."""
        return self._everyone.gather(rows)

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """Norm of all parts together."""
        norms = torch._foreach_norm([local_of(one) for one in gradients], 2.0)
        own = torch.stack(
            [
                norm if not self._tensor_rank or _is_divided(gradient) else norm.zero_()
                for norm, gradient in zip(norms, gradients, strict=True)
            ]
        )
        squares = own.double().square().sum()
        with notice_lost_peers():
            for axis in ("tensor", "pipeline"):
                distributed.all_reduce(squares, group=self.mesh.get_group(axis))
        norm = squares.sqrt()
        return norm.item() if norm.is_cpu else norm.float()

    def _divide(self, model: Divisible) -> None:
        """Keep the part of this rank."""
        model.divide(self.mesh["tensor"])

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


def _build_mesh(device: torch.device, ranks: Tensor) -> DeviceMesh:
    """Mesh of ranks [pipeline, data, tensor], whose calls end as those of all ranks do."""
    groups = [
        distributed.new_subgroups_by_enumeration(  # type: ignore[no-untyped-call]
            ranks.movedim(axis, -1).flatten(0, 1).tolist(), timeout=LIMIT
        )[0]
        for axis in range(len(AXES))
    ]
    return DeviceMesh.from_group(groups, device.type, ranks, mesh_dim_names=AXES)
