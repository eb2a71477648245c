"""The time of a step with our defaults over that of a plain fp32 loop, at equal loss.

The plain loop is what one writes first: the same network in fp32 with torch's own kernels, AdamW as
torch makes it, no signals. Ours is the step of a run with every `auto` of number format, kernels
and memory format decided as a run decides it: by a measurement on this machine. Both start from the
same weights, see the same batches at the same rate and take turns of a few steps in one process on
one thread; what is measured is the processor time of the process, and the loss that each has then.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from page import goal, write_section
from trainwright.contract.document import Contract
from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.optimizer import AdamW
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed
from trainwright.engine.execution.compile import CompiledObjective
from trainwright.engine.execution.precision import build_precision
from trainwright.engine.update.step import OptimizerStep
from trainwright.model.build_network import build_network
from trainwright.model.families import network_family
from trainwright.model.input_shape import ImageShape, Shape, TokenShape
from trainwright.objective.classification_losses import CrossEntropyLoss
from trainwright.objective.losses import Objective, Supervised
from trainwright.optim.build_optimizer import build_optimizer
from trainwright.planner.compute_trials import measure_compute
from trainwright.planner.estimate import Estimate
from trainwright.planner.plan import Plan
from trainwright.planner.plan_facts import read_device
from trainwright.planner.resolve.compute_choices import decide_compute, work_of
from trainwright.planner.resolve.training_choices import Choice, Choosing
from trainwright.run.compose.compose_step import kernels
from trainwright.run.trial.compute_trial import ModelTrial

RATE = 3e-4
PLANNED_STEPS = 500
"""Of the run for which is decided: too short to pay for compiling."""


@final
@dataclass(frozen=True)
class Workload:
    """A network with its rows; `goal` is how many times as fast ours should be."""

    name: str
    what: str
    section: ModelSection
    shape: Shape
    tensors: tuple[Tensor, ...]
    batch: int
    goal: float


@final
@dataclass(frozen=True)
class Measured:
    """Seconds of a step in each round, the losses at the end, and what was chosen."""

    work: Workload
    plain: Sequence[float]
    ours: Sequence[float]
    losses: tuple[float, float]
    choices: Sequence[Choice]


def gpt_14m() -> Workload:
    """Tokens that mostly follow from the one before, so that there is something to learn."""
    draw = torch.Generator().manual_seed(0)
    tokens = [torch.randint(0, 8192, (256,), generator=draw)]
    for _ in range(256):
        noise = torch.randint(0, 8192, (256,), generator=draw)
        follows = torch.rand(256, generator=draw) < 0.8
        tokens.append(torch.where(follows, (31 * tokens[-1] + 7) % 512, noise % 512))
    rows = torch.stack(tokens, dim=1)
    return Workload(
        name="gpt_14m",
        what="6 layers of width 384, 8192 tokens, batches of 8 x 256",
        section=Gpt(kind="gpt", layers=6, heads=6, width=384, context=256),
        shape=TokenShape(8192),
        tensors=(rows[:, :-1].contiguous(), rows[:, 1:].contiguous()),
        batch=8,
        goal=2.2,
    )


def resnet18() -> Workload:
    """Images of noise around the mean of their class."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(1024) % 10
    means = torch.randint(60, 190, (10, 3, 32, 32), generator=draw).float()
    noise = 50 * torch.randn(1024, 3, 32, 32, generator=draw)
    pixels = (means[labels] + noise).clamp(0, 255).to(torch.uint8)
    return Workload(
        name="resnet18",
        # A stage but the first begins with a block that halves the size: two blocks in each.
        what="four stages of two blocks from width 64, batch norm, 32 images of 32 x 32",
        section=ResNet(kind="resnet", width=64, blocks=(2, 1, 1, 1), norm="batch"),
        shape=ImageShape((3, 32, 32), (125.0,) * 3, (63.0,) * 3, 10),
        tensors=(pixels, labels),
        batch=32,
        goal=1.6,
    )


def decided(work: Workload) -> Plan:
    """The plan of a run of this workload, decided as a run does it."""
    contract = Contract.model_validate(
        {
            "task": "generation" if isinstance(work.section, Gpt) else "classification",
            "resume": {"determinism": "bitwise"},
            "data": {"kind": "tokens" if isinstance(work.section, Gpt) else "images", "path": "-"},
            "model": work.section.model_dump(),
            "training": {
                "num_epochs": 1,
                "batch_size": work.batch,
                "gradient_accumulation_steps": 1,
                "effective_batch_size": work.batch,
                "optimizer": {"name": "adamw", "learning_rate": RATE, "weight_decay": 0.01},
            },
        }
    )
    steps = PLANNED_STEPS
    plan = Plan(contract, (), Estimate(steps * work.batch, steps, steps, 0), ())
    choosing = Choosing()
    products = network_family(work.section).count_products(work.section, work.shape)
    amount = work_of(contract.training, products, steps)
    training = decide_compute(contract, amount, read_device(for_network=True), choosing)
    plan = plan.with_training(training, choosing.made)
    torch.manual_seed(0)
    model = build_network(work.section, work.shape)
    batch = tuple(tensor[: work.batch] for tensor in work.tensors)
    lay_out = partial(network_family(work.section).lay_out, model)
    loss = Supervised(CrossEntropyLoss())
    trial = ModelTrial(model, loss, batch, "bitwise", lay_out=lay_out)
    return measure_compute(plan, trial) if plan.open_paths else plan


def plain_loop(work: Workload) -> Callable[[int], float]:
    """The plain loop, without tuning; a call makes so many steps and gives the last loss."""
    torch.manual_seed(0)
    model = build_network(work.section, work.shape).train()
    network_family(work.section).lay_out(model, "contiguous")
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    feed = feed_of(work)

    def steps(count: int) -> float:
        for _ in range(count):
            (batch,) = feed.next_step().micro_batches
            *inputs, target = batch
            logits = model(*inputs)
            loss = functional.cross_entropy(logits.view(-1, logits.shape[-1]), target.view(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()

    return steps


def our_loop(work: Workload, plan: Plan, max_norm: float = math.inf) -> Callable[[int], float]:
    """The step of a run of this plan."""
    training = plan.contract.training
    torch.manual_seed(0)
    model: nn.Module = build_network(work.section, work.shape).train()
    network_family(work.section).lay_out(model, settled(training.compute.memory_format))
    assert isinstance(training.optimizer, AdamW)
    optimizer = build_optimizer(training.optimizer, model, work.batch)
    device = torch.device("cpu")
    precision = build_precision(settled(training.mixed_precision), model, device)
    objective: Objective = Supervised(CrossEntropyLoss())
    if training.compute.compile == "on":
        objective = CompiledObjective(objective)
    step = OptimizerStep(model, objective, optimizer, precision=precision, max_norm=max_norm)
    feed = feed_of(work)

    def steps(count: int) -> float:
        with kernels(plan.contract):
            for _ in range(count):
                outcome = step(feed.next_step())
        return float(outcome.loss)

    return steps


def feed_of(work: Workload) -> Feed:
    """The batches of a workload, shuffled."""

    def count(batch: Batch) -> int:
        return int(batch[1].numel())

    return Feed(work.tensors, work.batch, seed=0, count_targets=count)


def measure(work: Workload, rounds: int, steps: int) -> Measured:
    """Both in turns; the first turn is a warm-up."""
    plan = decided(work)
    loops = (plain_loop(work), our_loop(work, plan))
    seconds: tuple[list[float], list[float]] = ([], [])
    losses = [0.0, 0.0]
    for number in range(rounds + 1):
        for side, loop in enumerate(loops):
            started = time.process_time()
            losses[side] = loop(steps)
            if number:
                seconds[side].append((time.process_time() - started) / steps)
    return Measured(work, *seconds, (losses[0], losses[1]), plan.choices)


def measure_updates(work: Workload, rounds: int) -> dict[str, list[float]]:
    """Seconds of AdamW's update of all weights in each of torch's forms, in turns."""
    forms = {"fused": {"fused": True}, "loop": {"foreach": False}, "foreach": {"foreach": True}}
    optimizers: dict[str, torch.optim.Optimizer] = {}
    for name, options in forms.items():
        model = build_network(work.section, work.shape)
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 1e-3)
        optimizers[name] = torch.optim.AdamW(model.parameters(), lr=RATE, **options)
    found: dict[str, list[float]] = {name: [] for name in forms}
    for number in range(rounds + 1):
        for name, optimizer in optimizers.items():
            started = time.process_time()
            optimizer.step()
            if number:
                found[name].append(time.process_time() - started)
    return found


def updates_table(found: dict[str, list[float]]) -> str:
    """A row for each form."""
    lines = ["| form of AdamW | minimum, median | over fused |", "| --- | --- | --- |"]
    for name, seconds in found.items():
        ratio = min(seconds) / min(found["fused"])
        lines.append(f"| {name} | {_show(seconds)} | {ratio:.1f} |")
    return "\n".join(lines)


def table(measured: Sequence[Measured]) -> str:
    """A row for each workload."""
    lines = [
        "| workload | plain: min, median | ours: min, median | times as fast: minima, median of "
        "the rounds | goal | loss: plain, ours | chosen |",
        "| --- " * 7 + "|",
    ]
    for one in measured:
        ratios = [p / o for p, o in zip(one.plain, one.ours, strict=True)]
        chosen = ", ".join(str(c.value) for c in one.choices)
        times = statistics.median(ratios)
        wanted = goal(f"at least {one.work.goal}", times >= one.work.goal)
        lines.append(
            f"| {one.work.name} | {_show(one.plain)} | {_show(one.ours)} | "
            f"{min(one.plain) / min(one.ours):.2f}, {times:.2f} | "
            f"{wanted} | {one.losses[0]:.3f}, {one.losses[1]:.3f} | {chosen} |"
        )
    return "\n".join(lines)


def _show(seconds: Sequence[float]) -> str:
    return f"{min(seconds) * 1e3:,.0f}, {statistics.median(seconds) * 1e3:,.0f} ms"


def section(
    measured: Sequence[Measured], updates: dict[str, list[float]], rounds: int, steps: int
) -> str:
    """The text of the page."""
    about = " ".join((__doc__ or "").splitlines()[2:]).strip()
    works = ", ".join(f"`{one.work.name}`: {one.work.what}" for one in measured)
    last = steps * (rounds + 1)
    how = f"One thread, {rounds} rounds of {steps} steps; the losses are those of step {last}"
    forms = (
        "An update of the weights of `gpt_14m` in each form that torch has; ours is the fused one "
        "wherever there is one."
    )
    return f"{about}\n\n{table(measured)}\n\n{how}; {works}.\n\n{forms}\n\n{updates_table(updates)}"


def main() -> None:
    """Measure, print, and write the section if that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the section of the page")
    parser.add_argument("--rounds", type=int, default=8, help="rounds that are counted")
    parser.add_argument("--steps", type=int, default=2, help="steps of each loop in a round")
    parser.add_argument("--only", choices=("gpt_14m", "resnet18"), help="one of the workloads")
    given = parser.parse_args()
    torch.set_num_threads(1)
    works = [one for one in (gpt_14m(), resnet18()) if given.only in (None, one.name)]
    measured = [measure(work, given.rounds, given.steps) for work in works]
    updates = measure_updates(gpt_14m(), given.rounds)
    print(f"{table(measured)}\n\n{updates_table(updates)}")
    if given.write:
        text = section(measured, updates, given.rounds, given.steps)
        write_section("defaults", "Our defaults", text)


if __name__ == "__main__":
    main()
