"""What a rank costs, against the formulas of the planner: the memory that it takes at the start of
a training, and the time in which tensors are summed. Started by `distributed.py`, on each rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import torch
from torch import Tensor, distributed, nn
from torch.nn import functional

from page import show_seconds
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed
from trainwright.distributed.data_parallel import DataParallel
from trainwright.distributed.measure_link import measure_link, time_sum
from trainwright.distributed.sharded import FullyShard
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import StepLimit
from trainwright.engine.update.step import OptimizerStep
from trainwright.model.families import network_family
from trainwright.model.input_shape import TokenShape
from trainwright.objective.losses import LossSum
from trainwright.planner.micro_batch_memory import estimate_memory

MEBIBYTE = 2**20
SUMS = (MEBIBYTE, 8 * MEBIBYTE, 64 * MEBIBYTE)
STRATEGIES = ("ddp", "fsdp")
ROWS, CONTEXT, STEPS, ROUNDS = 4, 32, 4, 7
WORDS = TokenShape(59)
CPU = torch.device("cpu")
CONTRACT = f"""\
data: {{kind: tokens, path: words.txt}}
model: {{kind: gpt, layers: 8, width: 256, heads: 4, context: {CONTEXT}}}
training: {{batch_size: {ROWS}, optimizer: {{name: adamw}}}}
"""
MAPPED = {"MALLOC_MMAP_THRESHOLD_": str(2**16)}
"""What is freed goes back to the system, so that the resident memory is that of the tensors."""


class RankMemory(NamedTuple):
    """Bytes of the weights, those that the formula gives a rank, and those measured."""

    weights: int
    planned: int
    measured: int


class Sum(NamedTuple):
    """Bytes that are summed, seconds that the measured link gives them, and those measured."""

    size: int
    planned: float
    measured: float


def next_token(model: nn.Module, batch: Batch) -> LossSum:
    """Cross-entropy, summed over the tokens; a row is a target."""
    (tokens,) = batch
    logits = model(tokens[:, :-1]).flatten(0, 1)
    return LossSum(
        functional.cross_entropy(logits, tokens[:, 1:].flatten(), reduction="sum"), len(tokens)
    )


def train(strategy: str, section: Gpt, tokens: Tensor) -> None:
    """Some steps from initial weights."""
    family = network_family(section)
    torch.manual_seed(0)
    network = family.build(section, WORDS)
    ranks = DataParallel(CPU) if strategy == "ddp" else FullyShard(CPU)
    model = ranks.wrap(network, list(family.blocks(network)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    feed = Feed([tokens], ROWS, share=ranks.share)
    step = OptimizerStep(model, next_token, optimizer, strategy=ranks).drawing_by(0)
    fit(Job(model=model, feed=feed, step=step, stop_rules=(StepLimit(STEPS),)))


def plan_memory(contract: Contract, section: Gpt) -> tuple[int, int]:
    """Bytes of the weights, and of all that a rank holds."""
    parameters = network_family(section).count_parameters(section, WORDS)
    return 4 * parameters, estimate_memory(contract, section, WORDS, parameters, (0, 0)).total


def measure_memory(strategy: str, folder: Path) -> RankMemory:
    """Growth of the resident memory of this rank to its highest, after a small training that has
    loaded all code."""
    path = folder / "contract.yaml"
    path.write_text(CONTRACT)
    over = f"distributed={{strategy: {strategy}, num_gpus: 2}}"
    contract = read_contract(path, [over]).contract
    section = contract.model
    assert isinstance(section, Gpt)
    tokens = torch.randint(0, WORDS.outputs, (2 * ROWS * STEPS, CONTEXT + 1))
    train(strategy, section.model_copy(update={"layers": 1, "width": 16}), tokens)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins again
    train(strategy, section, tokens)
    return RankMemory(*plan_memory(contract, section), resident("VmHWM") - before)


def resident(name: Literal["VmRSS", "VmHWM"]) -> int:
    """Resident bytes of this process, now or at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measure_sums() -> list[Sum]:
    """Times of three sums, and what the link gives them: medians of rounds, in each of which both
    are measured."""
    planned: dict[int, list[float]] = {size: [] for size in SUMS}
    measured: dict[int, list[float]] = {size: [] for size in SUMS}
    for _ in range(ROUNDS):
        link = measure_link(CPU)
        for size in SUMS:
            planned[size].append(link.all_reduce_seconds(size))
            measured[size].append(time_sum(size, CPU))
    return [Sum(size, median(planned[size]), median(measured[size])) for size in SUMS]


def start(what: str) -> list[list[float]]:
    """What rank 0 of two measures."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", __file__]
        environment = {**os.environ, **MAPPED, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, what, folder], env=environment, check=True)
        found: list[list[float]] = json.loads((Path(folder) / "found.json").read_text())
    return found


def table() -> str:
    """Both tables."""
    lines = ["| `strategy` | weights | memory planned | measured |", "| --- | --- | --- | --- |"]
    for strategy in STRATEGIES:
        shown = " | ".join(f"{size / MEBIBYTE:.0f} MiB" for size in start(strategy)[0])
        lines.append(f"| `{strategy}` | {shown} |")
    lines += ["", "| summed | time planned | measured |", "| --- | --- | --- |"]
    for size, planned, measured in start("sums"):
        times = f"{show_seconds(planned)} | {show_seconds(measured)}"
        lines.append(f"| {size / MEBIBYTE:.0f} MiB | {times} |")
    return "\n".join(lines)


def main() -> None:
    """On a rank."""
    what, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    own = folder / str(distributed.get_rank())
    own.mkdir()
    found = measure_sums() if what == "sums" else [measure_memory(what, own)]
    if distributed.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.barrier()
    os._exit(0)  # a thread of gloo may still hold a tensor


if __name__ == "__main__":
    main()
