"""Distribution strategies: how several ranks train one model."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from torch import Tensor, nn

from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import Json
from trainwright.distributed.rank_share import WHOLE, RankShare

_ALONE = nullcontext()
_CPU = torch.device("cpu")


class Packet(NamedTuple):
    """Numbers of one step that every rank has to know: of one rank, or of all.

    `loss` is the loss summed over `targets`, on a GPU a 0-d tensor that is still there. `nonfinite`
    counts ranks with a non-finite loss; where that stays on a GPU, the sum shows it.
    `out_of_memory` is 0, or the rows of the largest micro-batch of a rank whose memory ran out;
    `stop` and `save` are requests, and `length` the steps that the run is to be shortened to; 0
    for none. The last four are the largest of all ranks, the others sums.
    """

    loss: float | Tensor
    targets: int
    nonfinite: int = 0
    out_of_memory: int = 0
    stop: int = 0
    save: int = 0
    length: int = 0


class StagePasses(NamedTuple):
    """Forward and backward passes of the micro-batches of a step.

    `inputs` are those of each, [B, L] with B of its own; `draw` seeds the generators for one of
    them, `forward` is the context of a forward pass, and `loss` the loss of one of them from its
    logits [B, L, V], divided by the targets of the step.
    """

    inputs: Sequence[Sequence[Tensor]]
    draw: Callable[[int], object]
    forward: Callable[[], AbstractContextManager[object]]
    loss: Callable[[int, Tensor], Tensor]


class Strategy(Protocol):
    """One of `world_size` ranks that train one model.

    Every rank calls the methods in the same order. What `reduce` and `gradient_norm` return is the
    same on every rank to the last bit, so that every rank takes the same branch. A rank that dies
    must make the calls of the others raise `PeerLost`; they may not wait for ever.
    """

    @property
    def rank(self) -> int:
        """Number of this rank, from 0."""
        ...

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        ...

    @property
    def share(self) -> RankShare:
        """This rank's share of the micro-batches of a step; ranks that divide a model have one."""
        ...

    @property
    def part(self) -> int:
        """Which part of a model this rank has, from 0: the first, where it has all of it."""
        ...

    @property
    def device(self) -> torch.device:
        """Device of this rank."""
        ...

    @property
    def passes_together(self) -> bool:
        """Whether ranks wait for each other inside a pass, so that all have to make as many."""
        ...

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:
        """The model to call in forward passes, with the weights of rank 0 on every rank; made once,
        before the optimizer. `blocks` are the parts of it that follow one another.

        Raises:
            Mistake: the ranks cannot train it as one process would.
        """
        ...

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:
        """Context of the forward and backward pass of one micro-batch of the wrapped model.

        Gradients accumulate on the rank; the ranks may exchange them in the `last` one. A rank that
        leaves it with an error for lack of memory makes no further pass before `reduce`, and must
        not leave the others waiting.
        """
        ...

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets of all ranks, once for each series of passes.

        Then the gradients of the wrapped model are sums over the ranks, with the strides of their
        parameters; a parameter that no rank used has none. If any rank ran out of memory, they are
        undefined, on every rank.
        """
        ...

    def gather(self, rows: Tensor) -> Tensor:
        """Rows [N, ...] of every rank, concatenated in the order of the ranks, each of which
        may have another N; without their graphs, and the same on every rank to the last bit."""
        ...

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """L2 norm of the whole gradient, over all parameters and shards: a number where reading it
        is free (on a CPU), else a 0-d tensor on the device."""
        ...


@runtime_checkable
class Staged(Strategy, Protocol):
    """One of the ranks of a model whose blocks are cut into stages."""

    def run_passes(self, passes: StagePasses) -> None:
        """Make the passes of a step in place of calls of the model; `loss` is called on ranks of
        the last stage."""
        ...

    def gather_stages(
        self, tensors: Mapping[str, Tensor], values: Json
    ) -> list[tuple[Mapping[str, Tensor], Json]]:
        """On rank 0 tensors and values of every stage, on others nothing."""
        ...


@final
class SingleProcess:
    """A single process with a single device."""

    rank = 0
    world_size = 1
    share = WHOLE
    part = 0
    passes_together = False

    def __init__(self, device: torch.device = _CPU) -> None:
        self.device = device

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:  # noqa: ARG002
        """The model itself."""
        return model

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """Nothing to exchange."""
        return _ALONE

    def reduce(self, packet: Packet) -> Packet:
        """The packet itself."""
        return packet

    def gather(self, rows: Tensor) -> Tensor:
        """The rows themselves."""
        return rows.detach()

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """L2 norm of all gradients."""
        return norm_of_norms(norms_of(gradients))


def refuse_batch_norm(model: nn.Module, world_size: int) -> None:
    """Refuse batch norm on several ranks, each of which would have statistics of its own rows.

    Raises:
        Mistake: the model has such a layer.
    """
    kind = nn.modules.batchnorm._BatchNorm
    found = [name for name, one in model.named_modules() if isinstance(one, kind)]
    if world_size > 1 and found:
        raise Mistake(
            Problem(
                "batch norm cannot be trained on several processes of a CPU",
                path="distributed.strategy",
                found=f"batch norm in {found[0]}",
                expected="a norm that each row has by itself",
                fix="take another norm, such as group norm, or strategy: single",
            )
        )


def packet_of(loss: Tensor, targets: int) -> Packet:
    """Packet of one rank: its loss summed over its targets, read where reading is free."""
    if loss.is_cpu:
        value = loss.item()
        return Packet(value, targets, 0 if math.isfinite(value) else 1)
    return Packet(loss.detach(), targets)


def combine_packets(packets: Sequence[Packet]) -> Packet:
    """Packet of all ranks, from that of each in the order of ranks."""
    return Packet(
        sum(packet.loss for packet in packets),
        sum(packet.targets for packet in packets),
        sum(packet.nonfinite for packet in packets),
        max(packet.out_of_memory for packet in packets),
        max(packet.stop for packet in packets),
        max(packet.save for packet in packets),
        max(packet.length for packet in packets),
    )


def norms_of(tensors: Sequence[Tensor], order: float = 2.0) -> list[Tensor]:
    """Vector norm of each tensor, 0-d. The shards of a `DTensor` are reduced over its ranks, which
    must all call this with the same tensors."""
    # If it has not been imported, which takes half a second, there is no DTensor.
    sharding = sys.modules.get("torch.distributed.tensor")
    if sharding is None or not any(isinstance(one, sharding.DTensor) for one in tensors):
        return list(torch._foreach_norm(list(tensors), order))
    norms = [torch.linalg.vector_norm(one, order) for one in tensors]
    return [n.full_tensor() if isinstance(n, sharding.DTensor) else n for n in norms]


def norm_of_norms(norms: Sequence[Tensor]) -> float | Tensor:
    """L2 norm of several tensors, from the norm of each (0-d): read on a CPU, on the device
    elsewhere."""
    if norms[0].is_cpu:
        return math.hypot(*[norm.item() for norm in norms])
    total: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)))
    return total
