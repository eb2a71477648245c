"""Ranks that are threads of this process, and steps of a small model divided among them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeVar, final

import torch
from torch import Tensor, nn

from trainwright.core.errors import PeerLost
from trainwright.data.loading.feed import StepBatches
from trainwright.distributed.rank_share import RankShare
from trainwright.distributed.strategy import (
    Packet,
    SingleProcess,
    Strategy,
    combine_packets,
    refuse_batch_norm,
)
from trainwright.tracking.events import StepOutcome, read_number

Found = TypeVar("Found")

_PATIENCE_SECONDS = 120.0

STEP_ROWS: Final = (18, 7, 3, 5)
"""Rows of each step, of which the third has fewer than four ranks have micro-batches."""

NO_MEMORY: Final = "DefaultCPUAllocator: can't allocate memory"
_FAR = 1e-12


@final
class FakeStrategy:
    """One of several ranks that are threads and exchange their values in memory.

    It counts its exchanges of packets, and refuses a `reduce` after passes of which none was the
    last, and ranks that make different calls.
    """

    def __init__(self, rank: int, group: FakeRanks) -> None:
        self.rank = rank
        self.world_size = group.world_size
        self.share, self.part = RankShare(rank, group.world_size), 0
        self.passes_together = False
        self.device = torch.device("cpu")
        self.packets = 0
        self._group = group
        self._parameters: list[nn.Parameter] = []
        self._has_open_pass = False

    def wrap(self, model: nn.Module, blocks: Iterable[nn.Module] = ()) -> nn.Module:  # noqa: ARG002
        """The model, with the weights of rank 0."""
        refuse_batch_norm(model, self.world_size)
        self._parameters = list(model.parameters())
        first = self._exchange("weights", [one.detach().clone() for one in self._parameters])[0]
        with torch.no_grad():
            for parameter, value in zip(self._parameters, first, strict=True):
                parameter.copy_(value)
        return model

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        """Gradients accumulate here; `reduce` exchanges them."""
        return self._passing(last)

    def reduce(self, packet: Packet) -> Packet:
        """Combine the packets, and the gradients unless memory ran out."""
        assert not self._has_open_pass or packet.out_of_memory, "no micro-batch was the last"
        self._has_open_pass = False
        self.packets += 1
        told = combine_packets(self._exchange("packet", packet))
        if not told.out_of_memory:
            of_ranks = self._exchange("gradients", [one.grad for one in self._parameters])
            for parameter, *gradients in zip(self._parameters, *of_ranks, strict=True):
                parameter.grad = add_gradients(gradients)
        return told

    def gather(self, rows: Tensor) -> Tensor:
        """Copies of the rows of all ranks."""
        return torch.cat(self._exchange("rows", rows.detach().clone()))

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        """Norm of the gradients, which are the same on every rank."""
        return SingleProcess().gradient_norm(gradients)

    def _exchange(self, what: str, value: Any) -> list[Any]:
        return self._group.exchange(self.rank, what, value)

    @contextmanager
    def _passing(self, last: bool) -> Iterator[None]:
        self._has_open_pass = not last
        yield


@final
class FakeRanks:
    """A group of `world_size` threads."""

    def __init__(self, world_size: int) -> None:
        self.world_size = world_size
        self._barrier = threading.Barrier(world_size)
        self._calls = [""] * world_size
        self._values: list[Any] = [None] * world_size

    def run(self, work: Callable[[Strategy], Found]) -> list[Found]:
        """What `work` returns on each rank.

        Raises:
            Exception: the error of the first rank that failed by itself.
        """
        found: list[Any] = [None] * self.world_size
        errors: dict[int, BaseException] = {}

        def run_one(rank: int) -> None:
            try:
                found[rank] = work(FakeStrategy(rank, self))
            except BaseException as error:  # raised again in the thread of the caller
                errors[rank] = error
                self._barrier.abort()

        threads = [threading.Thread(target=run_one, args=(r,)) for r in range(self.world_size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own = [error for error in errors.values() if not isinstance(error, PeerLost)]
        for error in (*own, *errors.values()):
            raise error
        return found

    def exchange(self, rank: int, what: str, value: Any) -> list[Any]:
        """The values of all ranks, in their order.

        Raises:
            PeerLost: another rank has failed.
        """
        self._calls[rank], self._values[rank] = what, value
        self._wait()
        calls, values = list(self._calls), list(self._values)
        self._wait()
        assert len(set(calls)) == 1, f"the ranks took different branches: {calls}"
        return values

    def _wait(self) -> None:
        try:
            self._barrier.wait(_PATIENCE_SECONDS)
        except threading.BrokenBarrierError:
            raise PeerLost("another rank has failed, or has ended before this one") from None


def add_gradients(gradients: Sequence[Tensor | None]) -> Tensor | None:
    """Sum in the order of ranks; None where no rank has one."""
    there = [gradient for gradient in gradients if gradient is not None]
    if not there:
        return None
    total = there[0].clone()
    for gradient in there[1:]:
        total += gradient
    return total


def network_of_rank(seed: int) -> nn.Module:
    """A small network in fp64, drawn by a seed."""
    draw = torch.Generator().manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    with torch.no_grad():
        for one in model.parameters():
            one.copy_(torch.randn(one.shape, generator=draw, dtype=torch.float64) / 3)
    return model


def own_batches(work: StepBatches, strategy: Strategy) -> StepBatches:
    """This rank's micro-batches of a step, or one without rows. Targets and rows remain those of
    the whole step."""
    filled = [batch for batch in work.micro_batches if len(batch[0])]
    share = RankShare(strategy.rank, strategy.world_size)
    mine = share.bounds(len(filled))
    batches, before = filled[mine], [len(batch[0]) for batch in filled[: mine.start]]
    idle = strategy.passes_together and len(batches) < share.most(len(filled))
    if idle or not batches:
        batches.append(filled[0].apply(lambda one: one[: int(idle)]))
    return work._replace(micro_batches=batches, before=before, idle=idle)


def assert_same_outcome(ours: StepOutcome, alone: StepOutcome) -> None:
    """What a step tells is what a single process tells, up to rounding."""
    for one, other in (
        (ours.loss, alone.loss),
        (ours.gradient_norm, alone.gradient_norm),
        (ours.found_nonfinite, alone.found_nonfinite),
        (ours.clipped, alone.clipped),
    ):
        assert math.isclose(read_number(one), read_number(other), rel_tol=_FAR, abs_tol=_FAR)
    assert (ours.rows, ours.targets, ours.samples) == (alone.rows, alone.targets, alone.samples)


def assert_same_weights(
    ours: Sequence[Tensor], alone: Sequence[Tensor], *, atol: float = _FAR
) -> list[float]:
    """The weights of a single process, up to rounding; all of them."""
    for one, other in zip(ours, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=atol)
    return [value for one in ours for value in one.flatten().tolist()]
