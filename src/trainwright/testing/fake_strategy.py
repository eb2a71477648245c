"""Ranks that are threads of this process, for tests of what several of them do together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, final

import torch
from torch import Tensor, nn

from trainwright.core.errors import PeerLost
from trainwright.distributed.strategy import Packet, SingleProcess, Strategy, combine_packets

Found = TypeVar("Found")

_PATIENCE_SECONDS = 120.0


@final
class FakeStrategy:
    """One of several ranks that are threads and exchange their values in memory.

    It counts its exchanges of packets, and refuses a `reduce` without a last micro-batch and ranks
    that make different calls.
    """

    def __init__(self, rank: int, group: FakeRanks) -> None:
        self.rank = rank
        self.world_size = group.world_size
        self.device = torch.device("cpu")
        self.packets = 0
        self._group = group
        self._parameters: list[nn.Parameter] = []
        self._had_last = False

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model, with the weights of rank 0."""
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
        assert self._had_last or packet.out_of_memory, "the last micro-batch was not announced"
        self._had_last = False
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
        yield
        self._had_last = last


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
