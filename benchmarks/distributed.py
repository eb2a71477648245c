"""A step of `strategy: ddp` and `fsdp` on two processes, compared with hand-written loops.

Both train the same network from the same weights on the same rows, each process one micro-batch a
step, on one thread each, over gloo. The loop by hand wraps the network in torch's
`DistributedDataParallel`, or its layers in `fully_shard`, sums the loss of both processes and clips
nothing; ours is `fit` with the feed, the step and its packet. They take turns of some steps, in an
order that changes, inside the same two processes; a time is the median of the turns, and what is
shown is the ratio. Where they are installed (`make peers`, then with the Python of .venv-peers),
accelerate and Lightning take turns too, with their `ddp`, and the loss is summed as each does it;
what Lightning does before and after the steps of a turn is not counted. Then the formulas of the
planner: the memory by which a process grows at the start of the training of a GPT, and the time in
which tensors are summed, from the latency and the bandwidth of two other sums.

python benchmarks/distributed.py [--write]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise, product
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rank_costs
from page import goal, show_seconds, write_section
from rank_peers import Turn, find_peers
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed
from trainwright.distributed.data_parallel import DataParallel
from trainwright.distributed.sharded import FullyShard
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.stopping.stop_rules import StepLimit
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum

ROWS, COLUMNS, TURNS = 4096, 64, 9
SIZES = {"short": (64, 128, 60), "middle": (256, 512, 20), "long": (1024, 1024, 6)}
"""Rows of a micro-batch, width of the network, and steps of a turn."""

STRATEGIES = ("ddp", "fsdp")
MOST = 1.05


def make_network(width: int) -> nn.Sequential:
    """The same network on every rank."""
    torch.manual_seed(0)
    widths = [COLUMNS, width, width, width]
    layers = [nn.Sequential(nn.Linear(a, b), nn.GELU()) for a, b in pairwise(widths)]
    return nn.Sequential(*layers, nn.Linear(width, 1))


def squares(model: nn.Module, batch: Batch) -> LossSum:
    """Summed squared errors."""
    x, y = batch
    return LossSum((model(x) - y).square().sum(), len(y))


def wrap_by_hand(strategy: str, network: nn.Sequential) -> nn.Module:
    """The network as torch's own examples wrap it."""
    if strategy == "ddp":
        return DistributedDataParallel(network)
    for module in (*network, network):
        fully_shard(module)
    return network


def train_by_hand(strategy: str, x: Tensor, y: Tensor, rows: int, width: int, steps: int) -> Turn:
    """A turn of the loop by hand."""
    model = wrap_by_hand(strategy, make_network(width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    rank, at = distributed.get_rank(), 0

    def turn() -> float:
        nonlocal at
        started = time.perf_counter()
        for _ in range(steps):
            start = (at * 2 + rank) * rows % (ROWS - rows)
            at += 1
            optimizer.zero_grad()
            loss = (model(x[start : start + rows]) - y[start : start + rows]).square().mean()
            loss.backward()
            optimizer.step()
            total = loss.detach()
            distributed.all_reduce(total)
            total.item()
        return (time.perf_counter() - started) / steps

    return turn


def train_ours(name: str, x: Tensor, y: Tensor, rows: int, width: int, steps: int) -> Turn:
    """A turn of ours."""
    device, network = torch.device("cpu"), make_network(width)
    strategy = DataParallel(device) if name == "ddp" else FullyShard(device)
    model = strategy.wrap(network, network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    feed = Feed([x, y], rows, share=strategy.share)
    step = OptimizerStep(model, squares, optimizer, strategy=strategy).drawing_by(0)

    def turn() -> float:
        started = time.perf_counter()
        fit(Job(model=model, feed=feed, step=step, stop_rules=(StepLimit(steps),)))
        return (time.perf_counter() - started) / steps

    return turn


def measure(folder: Path) -> None:
    """In each of the two processes: seconds of a step of both, by size."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    draw = torch.Generator().manual_seed(1)
    x, y = (torch.randn(ROWS, n, generator=draw) for n in (COLUMNS, 1))
    found = {}
    for strategy, (name, (rows, width, steps)) in product(STRATEGIES, SIZES.items()):
        turns = {
            "hand": train_by_hand(strategy, x, y, rows, width, steps),
            "ours": train_ours(strategy, x, y, rows, width, steps),
        }
        if strategy == "ddp":
            for peer, build in find_peers().items():
                turns[peer] = build(make_network(width), x, y, rows, steps)
        times: dict[str, list[float]] = {who: [] for who in turns}
        for number in range(TURNS + 1):
            for who in list(turns)[:: 1 if number % 2 else -1]:
                distributed.barrier()
                seconds = turns[who]()
                if number:
                    times[who].append(seconds)
        found[f"{strategy} {name}"] = {
            who: statistics.median(values) for who, values in times.items()
        }
    if distributed.get_rank() == 0:
        (folder / "found.json").write_text(json.dumps(found))
    distributed.barrier()
    os._exit(0)  # a thread of gloo may still hold a tensor


def main() -> None:
    """Start both processes, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "RANKS_FOLDER": folder}
        subprocess.run([*command, __file__], env=environment, check=True)
        found = json.loads((Path(folder) / "found.json").read_text())
    lines = [
        "| strategy | rows, width | by hand | ours / by hand | accelerate | Lightning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for strategy, (name, (rows, width, _)) in product(STRATEGIES, SIZES.items()):
        times = found[f"{strategy} {name}"]
        hand, ours = times["hand"], times["ours"]
        peers = [
            f"{times[peer] / hand:.2f}" if peer in times else ""
            for peer in ("accelerate", "lightning")
        ]
        share = goal(f"{ours / hand:.2f}", ours <= MOST * hand)
        cells = [f"`{strategy}`", f"{rows}, {width}", show_seconds(hand), share, *peers]
        lines.append(f"| {' | '.join(cells)} |")
    table = "\n".join(lines)
    table = f"{table}\n\n{rank_costs.table()}"
    print(table)
    if given.write:
        about = " ".join((__doc__ or "").split("\n\n")[1].splitlines())
        write_section("ranks", "Two processes", f"{about}\n\n{table}")


if __name__ == "__main__":
    if "RANKS_FOLDER" in os.environ:
        measure(Path(os.environ["RANKS_FOLDER"]))
    else:
        main()
