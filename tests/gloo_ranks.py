"""Processes joined by gloo: a strategy of collectives alone, and its conformance."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from pathlib import Path

import torch
from torch import Tensor, distributed, nn

from deadlines import within
from forked_ranks import start_ranks
from trainwright.core.errors import PeerLost
from trainwright.distributed.strategy import Packet, SingleProcess, combine_packets
from trainwright.testing.strategy_conformance import CHECKS


class GlooStrategy:
    """Gradients are summed in one collective after the last micro-batch, once the packets have said
    that no rank ran out of memory."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        self.rank = distributed.get_rank()
        self.world_size = distributed.get_world_size()
        self._parameters: list[nn.Parameter] = []

    def wrap(self, model: nn.Module) -> nn.Module:
        self._parameters = list(model.parameters())
        for parameter in self._parameters:
            distributed.broadcast(parameter.detach(), src=0)
        return model

    def micro_batch(self, model: nn.Module, *, last: bool) -> AbstractContextManager[object]:
        return nullcontext()

    def reduce(self, packet: Packet) -> Packet:
        numbers = torch.tensor([float(number) for number in packet], dtype=torch.float64)
        of_ranks = [torch.empty_like(numbers) for _ in range(self.world_size)]
        try:
            distributed.all_gather(of_ranks, numbers)
        except RuntimeError as error:
            raise PeerLost(str(error)) from error
        told = combine_packets([_packet(one) for one in of_ranks])
        if not told.out_of_memory:
            self._add_gradients()
        return told

    def _add_gradients(self) -> None:
        parameters = self._parameters
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        used = torch.tensor([float(p.grad is not None) for p in parameters], dtype=torch.float64)
        flat = torch.cat([used, *(one.flatten() for one in gradients)])
        distributed.all_reduce(flat)
        sizes = [len(used), *(one.numel() for one in gradients)]
        used, *sums = torch.split(flat, sizes)
        for parameter, there, total in zip(parameters, used.tolist(), sums, strict=True):
            parameter.grad = total.view_as(parameter).clone() if there else None

    def gather(self, rows: Tensor) -> Tensor:
        counts = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        distributed.all_gather(counts, torch.tensor([len(rows)]))
        sizes = [int(one) for one in counts]
        padded = rows.new_zeros(max(sizes), *rows.shape[1:])
        padded[: len(rows)] = rows.detach()
        of_ranks = [torch.empty_like(padded) for _ in range(self.world_size)]
        distributed.all_gather(of_ranks, padded)
        return torch.cat([one[:size] for one, size in zip(of_ranks, sizes, strict=True)])

    def gradient_norm(self, gradients: list[Tensor]) -> float | Tensor:
        return SingleProcess().gradient_norm(gradients)


def _packet(numbers: Tensor) -> Packet:
    loss, *counts = numbers.tolist()
    return Packet(loss, *map(int, counts))


def _run(rank: int, world_size: int, folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=within(120)),
    )
    found: dict[str, Sequence[float] | str] = {}
    for name, check in CHECKS.items():
        try:
            found[name] = check(GlooStrategy())
        except Exception:
            found[name] = traceback.format_exc()
            break  # the ranks are no longer at the same place
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))
    distributed.destroy_process_group()
    # A thread of gloo may still hold the tensors of the last collective: it needs the interpreter
    # to drop them, and aborts the process if that is ending (pytorch/pytorch#179291).
    os._exit(0)


def check_all(world_size: int, folder: Path) -> list[dict[str, Sequence[float] | str]]:
    """What each check returned on each rank, or its error."""
    start_ranks(_run, world_size, (world_size, str(folder)))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]
