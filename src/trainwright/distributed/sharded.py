"""Sharded data parallelism: each rank holds a shard of every parameter, gradient and moment, of one
of several replicas of the model."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import final

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from trainwright.distributed.data_parallel import DataParallel, notice_lost_peers
from trainwright.distributed.rank_share import RankShare
from trainwright.distributed.strategy import Packet, norm_of_norms, norms_of
from trainwright.distributed.tensor_shards import local_of


@final
class FullyShard:
    """A rank of the default process group that trains with torch's `fully_shard` (FSDP2; Zhao et
    al. 2023, arXiv:2304.11277; ZeRO-3: Rajbhandari et al. 2020, arXiv:1910.02054), one of the
    ranks of `replicas` that each have all shards: neighbouring ones.

    The parameters of a block are gathered before its passes and freed after them (without
    `reshard_after_forward` only after its backward pass: ZeRO-2), and its gradients are summed and
    scattered within that. So every rank makes as many passes as the others, and one whose memory
    has run out cannot tell them: its error ends the group.
    """

    passes_together = True

    def __init__(
        self, device: torch.device, replicas: int = 1, *, reshard_after_forward: bool = True
    ) -> None:
        self._replicas, self._reshard = replicas, reshard_after_forward
        self._peers = DataParallel(device)
        self.rank, self.world_size = self._peers.rank, self._peers.world_size
        self.share = RankShare(self.rank, self.world_size, self.passes_together)
        self.part = 0
        self.device = device

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:
        """The model, with the weights and buffers of rank 0 and each of its parameters in shards:
        block by block, and then what is outside of them."""
        self._peers.share_weights(model)
        size = (self._replicas, self.world_size // self._replicas)
        mesh = init_device_mesh(self.device.type, size, mesh_dim_names=("replica", "shard"))
        if self._replicas == 1:
            mesh = mesh["shard"]
        for module in (*blocks, model):
            fully_shard(module, mesh=mesh, reshard_after_forward=self._reshard)
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)  # gloo has no other
        return model

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """The passes themselves exchange parameters and gradients."""
        return notice_lost_peers()

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets: the gradients are sums already."""
        with notice_lost_peers():
            return self._peers.exchange(packet, 0)[0]

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks."""
        return self._peers.gather(rows)

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """Norm of the gradients, from that of each shard, which the first replica has all of."""
        own = norm_of_norms(norms_of([local_of(one) for one in gradients]))
        own = torch.as_tensor(own, dtype=torch.float64, device=self.device)
        with notice_lost_peers():
            of_ranks = self._peers.of_ranks(own)
        return norm_of_norms(of_ranks[: self.world_size // self._replicas])
