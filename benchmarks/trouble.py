"""How often a training is called troubled that is not, and how often one that is.

Clean runs draw a task, a network, an optimizer, a rate within a factor of three of a good one, a
schedule and a batch from their seed; near misses are among them (batches of one row, full batches
at the edge of stability, restarts, noisy labels, a fixed order). A clean run counts if the loss on
a thousand rows fell. Faulty runs are clean ones with one thing broken. Every run is made by the
loop with the watch of a real run around it.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from page import write_section
from trainwright.contract.sections.section import settled
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import Feed
from trainwright.engine.health.health_monitor import HealthMonitor
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.signals.dead_units import DeadUnits
from trainwright.engine.signals.network_inspection import LayerNorms, StepProbes
from trainwright.engine.signals.telemetry import Windows
from trainwright.engine.stopping.stop_rules import StepLimit
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.losses import LossSum
from trainwright.optim.build_optimizer import build_optimizer
from trainwright.optim.schedule import LearningRate
from trainwright.tracking.events import Noted
from troubles.faults import FAULTS
from troubles.recipes import Recipe, a_schedule, clean
from troubles.tasks import Task


@final
@dataclass(frozen=True)
class Found:
    """What was told of a run, the loss on a thousand rows before and after it, and whether the
    guard ended it."""

    recipe: Recipe
    told: Sequence[Noted]
    before: float
    after: float
    halted: bool

    @property
    def learned(self) -> bool:
        return self.after < 0.98 * self.before


def train(recipe: Recipe, window: int = 50) -> Found:
    """The run, watched."""
    torch.manual_seed(recipe.seed)
    told: list[Noted] = []
    task, model = recipe.task, recipe.build()
    recipe.break_model(model)
    optimizer = build_optimizer(recipe.optimizer, model, recipe.batch)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        inputs, targets = batch
        return LossSum(task.loss(model(inputs), targets).sum(), targets.numel())

    feed = Feed(
        [task.inputs, task.targets],
        recipe.batch,
        seed=recipe.seed,
        shuffle=recipe.shuffle,
        count_targets=lambda batch: batch[1].numel(),
    )
    layers, units = LayerNorms(model), DeadUnits(model)
    windows = Windows(window, [layers, units], [HealthMonitor()], tell=told.append)
    step = OptimizerStep(model, objective, optimizer, max_norm=1.0 if recipe.seed % 2 else math.inf)
    schedule = (
        (lambda s: 1.02**s * 1e-6)
        if recipe.schedule == "climb"
        else a_schedule(recipe.schedule, recipe.steps)
    )
    before = evaluate(task, model)
    ended = fit(
        Job(
            model=model,
            feed=feed,
            step=step,
            probes=StepProbes(windows, [layers, units]),
            knobs=(LearningRate(optimizer, schedule),),
            stop_rules=(StepLimit(recipe.steps),),
            observers=(windows,),
        )
    )
    return Found(recipe, told, before, evaluate(task, model), ended.kind == "halted")


def evaluate(task: Task, model: nn.Module) -> float:
    modes = model.training
    model.eval()
    with torch.no_grad():
        loss = float(task.loss(model(task.inputs[:1000]), task.targets[:1000]).mean())
    model.train(modes)
    return loss


def describe(found: Found) -> str:
    recipe, section = found.recipe, found.recipe.optimizer
    kinds = ", ".join(f"{note.kind} at {note.numbers['step']:.0f}" for note in found.told)
    return (
        f"seed {recipe.seed}: {recipe.task.kind}, {recipe.network}, {section.name} "
        f"{settled(section.learning_rate):.2g}, {recipe.schedule}, batches of {recipe.batch}, loss "
        f"{found.before:.3g} -> {found.after:.3g}: {kinds or 'nothing told'}"
        f"{'; ended by the guard' if found.halted else ''}"
    )


def count_alarms(first: int, wanted: int) -> str:
    """As many clean runs that have learned, with what was told of them."""
    learned, alarms, idle, seed = 0, 0, 0, first
    while learned < wanted:
        found = train(clean(seed))
        seed += 1
        if not found.learned:
            idle += 1
            print("not learned:", describe(found), flush=True)
            continue
        learned += 1
        if found.told:
            alarms += 1
            print("alarm:", describe(found), flush=True)
    bound = 1 - 0.05 ** (1 / learned)
    sure = f" (at most {bound:.1%} of such runs, with 95% certainty)" if not alarms else ""
    return (
        f"{learned} clean runs from seed {first} on, {alarms} with an alarm{sure}; {idle} more had "
        "not learned and do not count."
    )


def count_found(first: int, wanted: int) -> str:
    """A line for each fault: how often something is told, how often rightly, and when; and how
    often nothing was told because the guard had ended the run before, at a number that is none."""
    lines = [
        "| fault | told | rightly named | at step (median) | ended before by the guard | missed |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, (build, right) in FAULTS.items():
        runs = [train(build(first + number)) for number in range(wanted)]
        told = sum(bool(run.told) for run in runs)
        hits = [[n.numbers["step"] for n in run.told if n.kind in right] for run in runs]
        steps = [min(hit) for hit in hits if hit]
        for run in runs:
            print(f"{name}:", describe(run), flush=True)
        at = f"{median(steps):.0f}" if steps else ""
        halted = sum(run.halted and not hit for run, hit in zip(runs, hits, strict=True))
        missed = wanted - len(steps) - halted
        lines.append(f"| {name} | {told} | {len(steps)} of {wanted} | {at} | {halted} | {missed} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clean", type=int, default=240, help="clean runs that have learned")
    parser.add_argument("--faulty", type=int, default=20, help="runs of each fault")
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = [" ".join((__doc__ or "").splitlines()[2:]).strip()]
    if given.clean:
        parts.append(count_alarms(given.first, given.clean))
    if given.faulty:
        parts.append(count_found(given.first, given.faulty))
    text = "\n\n".join(parts)
    print(text)
    if given.write:
        write_section("trouble", "Trouble named early", text)


if __name__ == "__main__":
    main()
