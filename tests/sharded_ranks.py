"""Two processes, joined by gloo, that hold half of each parameter of a model."""

from __future__ import annotations

import gc
import json
import math
import weakref
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from forked_ranks import start_ranks
from trainwright.checkpoint.states.module_state import ModuleState
from trainwright.distributed.sharded import FullyShard
from trainwright.distributed.strategy import SingleProcess, norms_of
from trainwright.engine.update.gradient_clipping import ValueLimit

RANKS = 2
ROWS = torch.arange(8.0).view(RANKS, 1, 4)
CALM = 1e-3


def model() -> nn.Module:
    """Three layers of one shape."""
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))


def sharded() -> nn.Module:
    """The same, half of it here."""
    whole, mesh = model(), init_device_mesh("cpu", (RANKS,))
    for layer in whole.children():
        fully_shard(layer, mesh=mesh)
    fully_shard(whole, mesh=mesh)
    return whole


def gradients_of(model: nn.Module) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]


def count_kept() -> int:
    """Whole weights that the strategy still holds when it has divided a model."""
    whole = model()
    weights = [weakref.ref(weight) for weight in whole.parameters()]
    strategy = FullyShard(torch.device("cpu"))
    strategy.wrap(whole, whole.children())
    gc.collect()
    return sum(weight() is not None for weight in weights)


def measure(rank: int) -> dict[str, Any]:
    """What one rank finds."""
    network = sharded()
    snapshot = ModuleState(network).snapshot()
    network(ROWS[rank]).square().sum().backward()
    gradients = gradients_of(network)
    largest = float(max(norms_of(gradients, math.inf)))
    return {
        "tensors": sorted(snapshot.tensors),
        "tied": snapshot.values["tied"],
        "norm": float(SingleProcess().gradient_norm(gradients)),
        "with_one_of_its_own": float(SingleProcess().gradient_norm([*gradients, torch.ones(9)])),
        "kept": count_kept(),
        "clipped": ValueLimit(largest * (1 - CALM)).clip(gradients, math.inf),
    }


def _run(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    try:
        (Path(folder) / f"{rank}.json").write_text(json.dumps(measure(rank)))
    finally:
        distributed.destroy_process_group()


def measure_all(folder: Path) -> list[dict[str, Any]]:
    """What each rank finds."""
    start_ranks(_run, RANKS, (str(folder),))
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]
