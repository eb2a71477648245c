"""Data parallelism: a copy of the model on each rank, whose gradients are summed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import final

import torch
from torch import Tensor, distributed, nn

from trainwright.core.errors import PeerLost
from trainwright.distributed.link import BUCKET_BYTES
from trainwright.distributed.rank_share import RankShare
from trainwright.distributed.rank_watch import describe_lost_peer, wait_for_peers
from trainwright.distributed.strategy import (
    Packet,
    SingleProcess,
    combine_packets,
    refuse_batch_norm,
)
from trainwright.distributed.tensor_shards import local_of

LIMIT = timedelta(hours=2)
"""How long a rank waits for another in one call, such as while that one compiles its kernels; a
frozen one is noticed by `RankWatch`."""


@final
class DataParallel:
    """A rank of the default process group of torch.distributed.

    Gradients are summed once the packets have said that no rank ran out of memory: torch's DDP
    sums them during the backward pass, where the others would wait for a rank that has failed, and
    for one that has no micro-batch of a short step; and it sums none of a layer that was frozen
    when the model was wrapped.

    The packets are gathered and combined on each rank rather than reduced: gloo's largest of
    several numbers passes over NaN, and its sums depend on the position in the tensor.
    """

    passes_together = False

    def __init__(self, device: torch.device) -> None:
        self.rank = distributed.get_rank()
        self.world_size = distributed.get_world_size()
        self.device = device
        self.share = RankShare(self.rank, self.world_size, self.passes_together)
        self.part = 0
        self._parameters: list[nn.Parameter] = []

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:  # noqa: ARG002
        """The model, with the weights and buffers of rank 0."""
        self.share_weights(model)
        self._parameters = list(model.parameters())
        return model

    def share_weights(self, model: nn.Module) -> None:
        """Give the model the weights and buffers of rank 0."""
        refuse_batch_norm(model, self.world_size)
        with notice_lost_peers(), torch.no_grad():
            for tensor in (*model.parameters(), *model.buffers()):
                values = tensor.detach().contiguous()
                distributed.broadcast(values, src=0)
                tensor.copy_(values)

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """Gradients accumulate here; `reduce` sums them."""
        return nullcontext()

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets, and sum the gradients unless memory ran out."""
        unused = sum(parameter.grad is None for parameter in self._parameters)
        with notice_lost_peers():
            combined, any_unused = self.exchange(packet, unused)
            if not combined.out_of_memory:
                sum_gradients(self._parameters, self.device, some_unused=any_unused)
        return combined

    def exchange(self, packet: Packet, unused: int) -> tuple[Packet, bool]:
        """The packet of all ranks, and whether a parameter is unused on any of them."""
        numbers = [float(number) for number in (*packet, unused)]
        own = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        of_ranks = torch.stack(self.of_ranks(own)).tolist()
        packets = [Packet(loss, *map(int, rest)) for loss, *rest, _ in of_ranks]
        return combine_packets(packets), any(row[-1] for row in of_ranks)

    def gather(self, rows: Tensor) -> Tensor:
        """The rows of all ranks."""
        rows = rows.detach()
        with notice_lost_peers():
            own_size = torch.tensor([len(rows)], device=rows.device)
            sizes = [int(size) for size in self.of_ranks(own_size)]
            padded = rows.new_zeros(max(sizes), *rows.shape[1:])
            padded[: len(rows)] = rows
            parts = self.of_ranks(padded)
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """Norm of the gradients, which are the same on every rank."""
        return SingleProcess().gradient_norm(gradients)

    def of_ranks(self, own: Tensor) -> list[Tensor]:
        """A tensor of the same shape of each rank."""
        of_ranks = [torch.empty_like(own) for _ in range(self.world_size)]
        distributed.all_gather(of_ranks, own)
        return of_ranks


def sum_gradients(
    trained: Sequence[nn.Parameter],
    device: torch.device,
    *,
    some_unused: bool,
    group: distributed.ProcessGroup | None = None,
) -> None:
    """Sum the gradients over a group in place, those of this rank of divided ones, a bucket at a
    time. A parameter that some ranks used has a gradient on all."""
    if some_unused:
        used = torch.tensor(
            [parameter.grad is not None for parameter in trained], dtype=torch.int64, device=device
        )
        distributed.all_reduce(used, group=group)
        trained = [one for one, ranks in zip(trained, used.tolist(), strict=True) if ranks]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    ranks = distributed.get_world_size(group)
    for bucket in _buckets_of([local_of(one.grad) for one in trained if one.grad is not None]):
        sizes = [gradient.numel() for gradient in bucket]
        rest = -sum(sizes) % ranks
        flat = torch.cat([*map(Tensor.flatten, bucket), bucket[0].new_zeros(rest)])
        sum_in_order(flat, ranks, group)
        parts = torch.split(flat, [*sizes, rest])
        for gradient, part in zip(bucket, parts, strict=False):
            gradient.copy_(part.view(gradient.shape))


def sum_in_order(values: Tensor, ranks: int, group: distributed.ProcessGroup | None = None) -> None:
    """Sum `values` over the ranks, in place, in their order: as one process adds one gradient to
    the other. An all-reduce may add them in any order, which makes no difference to two. Their
    number is a multiple of the ranks."""
    if ranks <= 2:
        distributed.all_reduce(values, group=group)
        return
    own = values.view(ranks, -1)
    shares = torch.empty_like(own)
    distributed.all_to_all_single(shares, own, group=group)
    total = shares[0]
    for share in shares[1:]:
        total += share
    distributed.all_gather(list(own), total, group=group)


def _buckets_of(gradients: Sequence[Tensor]) -> Iterator[list[Tensor]]:
    """Neighbouring gradients of one type, of about `BUCKET_BYTES` together."""
    bucket: list[Tensor] = []
    for gradient in gradients:
        size = sum(one.nbytes for one in bucket)
        if bucket and (size >= BUCKET_BYTES or bucket[0].dtype != gradient.dtype):
            yield bucket
            bucket = []
        bucket.append(gradient)
    if bucket:
        yield bucket


@contextmanager
def notice_lost_peers() -> Iterator[None]:
    """Turns the error of a broken connection into `PeerLost`."""
    try:
        with wait_for_peers():
            yield
    except (distributed.DistBackendError, distributed.DistNetworkError, RuntimeError) as error:
        if isinstance(error, PeerLost) or not _is_of_a_peer(error):
            raise
        lost = f"another rank has died, or does not answer: {error}"[:500]
        raise PeerLost(describe_lost_peer(lost)) from error


def _is_of_a_peer(error: RuntimeError) -> bool:
    if isinstance(error, distributed.DistError):
        return True
    # gloo raises plain errors.
    text = str(error)
    return "gloo" in text or "Timed out" in text or "Connection" in text
