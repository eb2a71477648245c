"""The time of our step over that of a plain torch loop written by hand.

Both train the same model on the same data in the same precision with the same batch, fused AdamW
and cosine schedule, in one process on one thread, in turns of a few steps. Ours is `fit` with
everything on: schedule knob, guard, stop rules, and the recorders of signals and events, which
write to a temporary folder. What is measured is the processor time of the process.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from page import write_section
from trainwright.contract.guard import Guard
from trainwright.core.flag import StopFlag
from trainwright.data.feed import Feed
from trainwright.data.store import Batch
from trainwright.engine.caution import Caution
from trainwright.engine.guard import PolicyGuard
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.step import OptimizerStep
from trainwright.engine.stop import Patience, StepLimit, StopRequested, TimeLimit
from trainwright.objective.losses import LossSum
from trainwright.optim.knob import LearningRate
from trainwright.optim.schedule import cosine_with_warmup
from trainwright.tracking.log import EventLog
from trainwright.tracking.observers import Observers
from trainwright.tracking.signals import SignalRecorder

GOALS = {"tiny_mlp": 1.15, "gpt_1m": 1.01}
TOTAL_STEPS = 100_000
PEAK = 1e-3
CLIPPING = 1.0


@final
@dataclass(frozen=True)
class Workload:
    """A model with its data; `steps` are made in one turn, `turns` of each loop in a round."""

    name: str
    build: Callable[[], nn.Module]
    tensors: tuple[Tensor, ...]
    batch: int
    mean_loss: Callable[[nn.Module, Batch], Tensor]
    objective: Callable[[nn.Module, Batch], LossSum]
    count_targets: Callable[[Batch], int]
    steps: int
    turns: int


@final
@dataclass(frozen=True)
class Row:
    """Seconds of a step in each round, plain and ours."""

    workload: str
    clipped: bool
    plain: Sequence[float]
    ours: Sequence[float]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return statistics.median(o / p for o, p in zip(self.ours, self.plain, strict=True))


class Gpt(nn.Module):
    """Five blocks of width 128 with tied embeddings: 1.04 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(256, 128)
        self.places = nn.Embedding(128, 128)
        self.blocks = nn.Sequential(*(Block() for _ in range(5)))
        self.norm = nn.LayerNorm(128)

    def forward(self, tokens: Tensor) -> Tensor:
        places = self.places.weight[: tokens.shape[1]]
        hidden = self.norm(self.blocks(self.tokens(tokens) + places))
        return functional.linear(hidden, self.tokens.weight)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(128), nn.LayerNorm(128)
        self.mix, self.out = nn.Linear(128, 384), nn.Linear(128, 128)
        self.widen, self.narrow = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        mixed = self.mix(self.first(hidden)).view(batch, length, 3, 4, width // 4)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return hidden + self.narrow(functional.gelu(self.widen(self.second(hidden))))


def tiny_mlp() -> Workload:
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(16_384, 16, generator=draw)
    targets = torch.sin(inputs).sum(dim=1, keepdim=True)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        x, y = batch
        return LossSum(functional.mse_loss(model(x), y, reduction="sum"), len(y))

    return Workload(
        name="tiny_mlp",
        build=lambda: nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)),
        tensors=(inputs, targets),
        batch=32,
        mean_loss=lambda model, batch: functional.mse_loss(model(batch[0]), batch[1]),
        objective=objective,
        count_targets=lambda batch: len(batch[0]),
        steps=500,
        turns=6,
    )


def gpt_1m() -> Workload:
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, 256, (1024, 129), generator=draw)

    def loss(model: nn.Module, batch: Batch, reduction: str) -> Tensor:
        (rows,) = batch
        logits = model(rows[:, :-1])
        wanted = rows[:, 1:].reshape(-1)
        return functional.cross_entropy(logits.view(-1, 256), wanted, reduction=reduction)

    def count(batch: Batch) -> int:
        return batch[0].shape[0] * 128

    return Workload(
        name="gpt_1m",
        build=Gpt,
        tensors=(tokens,),
        batch=8,
        mean_loss=lambda model, batch: loss(model, batch, "mean"),
        objective=lambda model, batch: LossSum(loss(model, batch, "sum"), count(batch)),
        count_targets=count,
        steps=8,
        turns=2,
    )


def plain_loop(work: Workload, clipped: bool) -> Callable[[], None]:
    """The loop as an expert writes it; each call makes the steps of one turn."""
    torch.manual_seed(0)
    model = work.build().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, fused=True)
    tensors, rows, batch = work.tensors, len(work.tensors[0]), work.batch
    warmup = TOTAL_STEPS // 20
    draw = torch.Generator().manual_seed(0)
    order, first, made = torch.randperm(rows, generator=draw), 0, 0

    def turn() -> None:
        nonlocal order, first, made
        for _ in range(work.steps):
            if made < warmup:
                factor = (made + 1) / warmup
            else:
                share = (made - warmup) / (TOTAL_STEPS - 1 - warmup)
                factor = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share))
            for group in optimizer.param_groups:
                group["lr"] = PEAK * factor
            if first >= rows:
                order, first = torch.randperm(rows, generator=draw), 0
            index = order[first : first + batch]
            loss = work.mean_loss(model, tuple(tensor[index] for tensor in tensors))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if clipped:
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIPPING)
            optimizer.step()
            first += batch
            made += 1

    return turn


def our_loop(work: Workload, clipped: bool, folder: Path) -> Callable[[], None]:
    """`fit` with every part of a real run; each call makes the steps of one turn."""
    torch.manual_seed(0)
    model = work.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, fused=True)
    schedule = cosine_with_warmup(TOTAL_STEPS, TOTAL_STEPS // 20, 0.01)
    patience = Patience("val_loss", "min", 5)
    recorders = [SignalRecorder(folder / "signals.jsonl", 50), EventLog(folder / "events.jsonl")]
    flag = StopFlag()
    feed = Feed(work.tensors, work.batch, count_targets=work.count_targets)
    caution = Caution(optimizer, 0.5, 200)
    job = Job(
        model=model,
        feed=feed,
        step=OptimizerStep(
            model, work.objective, optimizer, max_norm=CLIPPING if clipped else math.inf
        ),
        knobs=(LearningRate(optimizer, schedule), caution),
        guard=PolicyGuard(Guard(), caution, feed.rows_between),
        stop_rules=(
            StepLimit(work.steps),
            patience,
            TimeLimit(1e9, "the budget"),
            StopRequested(flag),
        ),
        patience=patience,
        observers=(Observers(recorders, print),),
    )
    return lambda: _fit(job)


def _fit(job: Job) -> None:
    ended = fit(job)
    assert ended.kind == "finished", ended.reason


def measure(work: Workload, clipped: bool, rounds: int) -> Row:
    """Both loops in turns; the first round warms up and is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        loops = (plain_loop(work, clipped), our_loop(work, clipped, Path(folder)))
        seconds: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds + 1):
            spent = [0.0, 0.0]
            for turn in range(work.turns):
                # Neither is always the one that finds the caches warm.
                for which in (0, 1) if turn % 2 else (1, 0):
                    started = time.process_time()
                    loops[which]()
                    spent[which] += time.process_time() - started
            if number:
                for which in (0, 1):
                    seconds[which].append(spent[which] / (work.turns * work.steps))
    return Row(work.name, clipped, *seconds)


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| workload | clipping | plain: min, median | ours: min, median | ratio of minima "
        "| median of the ratios | goal |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        goal = "" if row.clipped else f"{GOALS[row.workload]}"
        lines.append(
            f"| {row.workload} | {'1.0 in both' if row.clipped else 'none'} | {_show(row.plain)} "
            f"| {_show(row.ours)} | {min(row.ours) / min(row.plain):.3f} | {row.ratio:.3f} "
            f"| {goal} |"
        )
    return "\n".join(lines)


def _show(seconds: Sequence[float]) -> str:
    return f"{min(seconds) * 1e6:,.1f}, {statistics.median(seconds) * 1e6:,.1f} µs"


def section(rows: Sequence[Row], rounds: int) -> str:
    return f"""{" ".join((__doc__ or "").splitlines()[2:]).strip()}

{table(rows)}

One thread, {rounds} rounds. Where the machine is shared with other work, look at minimum and median together. `tiny_mlp` is 16-64-1 with batches of 32, `gpt_1m` five blocks of width 128 with batches of 8 x 128 tokens, both in fp32. Without clipping the plain loop computes no gradient norm; ours does, because it is a signal.
"""  # noqa: E501


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the ratios as JSON")
    parser.add_argument(
        "--write", action="store_true", help="write its section of docs/benchmarks.md"
    )
    parser.add_argument("--rounds", type=int, default=15, help="rounds that are counted")
    parser.add_argument("--only", choices=sorted(GOALS), help="one of the workloads")
    given = parser.parse_args()
    torch.set_num_threads(1)
    works = [work for work in (tiny_mlp(), gpt_1m()) if given.only in (None, work.name)]
    rows = [measure(work, clipped, given.rounds) for work in works for clipped in (False, True)]
    if given.json:
        ratios = {row.workload: round(row.ratio, 4) for row in rows if not row.clipped}
        print(json.dumps({"ratios": ratios}))
    else:
        print(table(rows))
    if given.write:
        write_section("loop", "The loop", section(rows, given.rounds))


if __name__ == "__main__":
    main()
