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
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract import optimizer as optimizers
from trainwright.contract.model import Gpt, ResNet, TabularResNet
from trainwright.contract.section import settled
from trainwright.data.feed import Feed
from trainwright.data.store import Batch
from trainwright.engine.job import Job
from trainwright.engine.layers import LayerNorms
from trainwright.engine.loop import fit
from trainwright.engine.measuring import MeasuredStep
from trainwright.engine.step import OptimizerStep
from trainwright.engine.stop import StepLimit
from trainwright.engine.trouble import EarlyTrouble
from trainwright.engine.units import DeadUnits
from trainwright.engine.windows import Windows
from trainwright.model.gpt import GptNetwork
from trainwright.model.network import build_table_network
from trainwright.model.resnet import build_resnet
from trainwright.model.shape import ImageShape, TableShape, TokenShape
from trainwright.objective.losses import LossSum
from trainwright.optim.build import build_optimizer
from trainwright.optim.knob import LearningRate
from trainwright.optim.schedule import (
    Schedule,
    constant,
    cosine,
    cosine_with_warmup,
    one_cycle,
    warmup_stable_decay,
)
from trainwright.tracking.events import Noted

Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of each target."""


@final
@dataclass(frozen=True)
class Task:
    """Inputs and targets, and what a network of it has to give."""

    kind: str
    inputs: Tensor
    targets: Tensor
    outputs: int
    loss: Loss


@final
@dataclass(frozen=True)
class Recipe:
    """One run. `optimizer` is a section of the contract, its rate already chosen."""

    task: Task
    network: str
    build: Callable[[], nn.Module]
    optimizer: optimizers.AnyOptimizer
    schedule: str
    batch: int
    steps: int
    seed: int
    shuffle: bool = True
    break_model: Callable[[nn.Module], object] = nn.Module.train


@final
@dataclass(frozen=True)
class Found:
    """What was told of a run, and the loss on a thousand rows before and after it."""

    recipe: Recipe
    told: Sequence[Noted]
    before: float
    after: float

    @property
    def learned(self) -> bool:
        return self.after < 0.98 * self.before


def squared(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.squeeze(-1) - targets).square()


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.squeeze(-1) - targets).abs()


def entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")


def a_task(draw: random.Random) -> Task:
    """A task of its own for each draw."""
    numbers = torch.Generator().manual_seed(draw.randrange(2**31))
    rows, columns = draw.choice([600, 2000, 6000]), draw.choice([6, 16, 40])
    kind = draw.choice(["numbers", "noisy", "classes", "rare", "images", "text"])
    inputs = torch.randn(rows, columns, generator=numbers)
    weights = torch.randn(columns, 12, generator=numbers) / columns**0.5
    signal = torch.tanh(2 * inputs @ weights) @ torch.randn(12, generator=numbers)
    signal = (signal - signal.mean()) / signal.std()
    noise = torch.randn(rows, generator=numbers)
    match kind:
        case "numbers":
            return Task(kind, inputs, signal + 0.1 * noise, 1, draw.choice([squared, absolute]))
        case "noisy":
            return Task(kind, inputs, 0.6 * signal + 0.8 * noise, 1, squared)
        case "classes":
            scores = inputs @ torch.randn(columns, 8, generator=numbers)
            labels = scores.argmax(1)
            flipped = torch.rand(rows, generator=numbers) < draw.choice([0.0, 0.1, 0.3])
            other = torch.randint(0, 8, (rows,), generator=numbers)
            return Task(kind, inputs, torch.where(flipped, other, labels), 8, entropy)
        case "rare":
            labels = (signal + 0.3 * noise > 1.2).long()
            return Task(kind, inputs, labels, 2, entropy)
        case "images":
            labels = torch.randint(0, 10, (rows,), generator=numbers)
            shapes = torch.randn(10, 1, 12, 12, generator=numbers)
            shown = 1.5 * shapes[labels] + torch.randn(rows, 1, 12, 12, generator=numbers)
            return Task(kind, 128 + 40 * shown, labels, 10, entropy)
        case _:
            return _text(rows, numbers)


def _text(rows: int, numbers: torch.Generator) -> Task:
    """Tokens of a chain whose next one depends on the last one."""
    size, length = 24, 32
    chances = torch.softmax(2 * torch.randn(size, size, generator=numbers), 1)
    tokens = torch.randint(0, size, (rows, 1), generator=numbers)
    for _ in range(length):
        following = torch.multinomial(chances[tokens[:, -1]], 1, generator=numbers)
        tokens = torch.cat([tokens, following], 1)
    return Task("text", tokens[:, :-1], tokens[:, 1:], size, entropy)


def a_network(task: Task, draw: random.Random) -> tuple[str, Callable[[], nn.Module]]:
    """A network that can learn the task."""
    if task.kind == "images":
        norm = draw.choice(["batch", "group"])
        section = ResNet(kind="resnet", width=8, blocks=(1, 1), norm=norm)
        shape = ImageShape((1, 12, 12), (128.0,), (72.0,), 10)
        return f"resnet {norm}", lambda: build_resnet(section, shape)
    if task.kind == "text":
        positions = draw.choice(["learned", "rotary"])
        layers = draw.choice([1, 2, 4])
        gpt = Gpt(kind="gpt", layers=layers, heads=2, width=32, context=32, positions=positions)
        return f"gpt {layers}", lambda: GptNetwork(gpt, TokenShape(task.outputs))
    columns = task.inputs.shape[1]
    if draw.random() < 0.3:
        tabular = TabularResNet(kind="tabular_resnet", width=32, blocks=draw.choice([1, 3]))
        shape = TableShape(columns, (), task.outputs)
        return "tabular_resnet", lambda: Numeric(build_table_network(tabular, shape))
    depth, width = draw.choice([1, 2, 4, 6]), draw.choice([16, 64, 200])
    active = draw.choice([nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.LeakyReLU])
    norm = draw.choice(["none", "none", "batch", "layer"])
    dropout = draw.choice([0.0, 0.0, 0.2])
    name = f"mlp {depth}x{width} {active.__name__} {norm}"
    return name, lambda: mlp(columns, task.outputs, depth, width, active, norm, dropout)


@final
class Numeric(nn.Module):
    """A network of a table without categories."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, numbers: Tensor) -> Tensor:
        out: Tensor = self.network(numbers, numbers.new_zeros(len(numbers), 0).long())
        return out


def mlp(
    columns: int,
    outputs: int,
    depth: int,
    width: int,
    active: type[nn.Module],
    norm: str,
    dropout: float,
) -> nn.Module:
    layers: list[nn.Module] = []
    for _ in range(depth):
        layers.append(nn.Linear(columns, width))
        layers += {"none": [], "batch": [nn.BatchNorm1d(width)], "layer": [nn.LayerNorm(width)]}[
            norm
        ]
        layers += [active(), nn.Dropout(dropout)]
        columns = width
    return nn.Sequential(*layers, nn.Linear(columns, outputs))


def an_optimizer(draw: random.Random, factor: float) -> optimizers.AnyOptimizer:
    decay = draw.choice([0.0, 0.01, 0.1])
    rates = {
        "sgd": 0.02,
        "momentum": 0.01,
        "adam": 2e-3,
        "adamw": 2e-3,
        "adafactor": 1e-2,
        "lion": 3e-4,
        "muon": 2e-3,
        "schedule_free": 2.5e-3,
    }
    name = draw.choice([*rates, "adamw", "momentum"])
    rate = rates[name] * factor
    match name:
        case "sgd":
            return optimizers.Sgd(name="sgd", learning_rate=rate, momentum=0.0)
        case "momentum":
            nesterov = draw.random() < 0.5
            return optimizers.Sgd(
                name="sgd", learning_rate=rate, momentum=0.9, nesterov=nesterov, weight_decay=5e-4
            )
        case "adam":
            return optimizers.Adam(name="adam", learning_rate=rate)
        case "adamw":
            return optimizers.AdamW(name="adamw", learning_rate=rate, weight_decay=decay)
        case "adafactor":
            return optimizers.Adafactor(name="adafactor", learning_rate=rate)
        case "lion":
            return optimizers.Lion(name="lion", learning_rate=rate, weight_decay=decay)
        case "muon":
            return optimizers.Muon(
                name="muon", learning_rate=rate, adamw_learning_rate=rate, weight_decay=decay
            )
        case _:
            return optimizers.ScheduleFreeAdamW(name="schedule_free_adamw", learning_rate=rate)


def a_schedule(name: str, steps: int) -> Schedule:
    match name:
        case "constant":
            return constant
        case "climb":
            return lambda step: 1e-6 * 1.02**step
        case "warmup":
            return cosine_with_warmup(steps, steps // 5, 0.01)
        case "restarts":
            return cosine(steps, steps // 20, 0.01, 3, 1.0)
        case "one_cycle":
            return one_cycle(steps, steps // 3, 0.04, 1e-5)
        case "wsd":
            return warmup_stable_decay(steps, steps // 20, steps // 3, "linear", 0.0)
        case _:
            return cosine_with_warmup(steps, steps // 20, 0.01)


def clean(seed: int) -> Recipe:
    """The clean run of a seed."""
    draw = random.Random(seed)
    task = a_task(draw)
    network, build = a_network(task, draw)
    rows = len(task.inputs)
    sizes = [4, 8, 16] if task.kind in ("images", "text") else [1, 4, 16, 64, 256, rows]
    # The statistics of a batch need more than one row.
    batch = max(draw.choice(sizes), 4 if network.endswith("batch") else 1)
    factor = draw.choice([0.3, 1.0, 1.0, 3.0]) * min(1.0, (batch / 16) ** 0.5)
    return Recipe(
        task=task,
        network=network,
        build=build,
        optimizer=an_optimizer(draw, factor),
        schedule=draw.choice(["constant", "cosine", "warmup", "restarts", "one_cycle", "wsd"]),
        batch=min(rows, batch),
        steps=draw.choice([400, 600, 900]),
        seed=seed,
        shuffle=draw.random() < 0.85,
    )


def rate_times(recipe: Recipe, factor: float) -> Recipe:
    section = recipe.optimizer
    changed: dict[str, object] = {"learning_rate": settled(section.learning_rate) * factor}
    if isinstance(section, optimizers.Muon):
        changed["adamw_learning_rate"] = settled(section.adamw_learning_rate) * factor
    return replace(recipe, optimizer=section.model_copy(update=changed))


def weights_of(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if isinstance(m, nn.Linear | nn.Conv2d)]


def scaled_weights(factor: float) -> Callable[[nn.Module], None]:
    def spoil(model: nn.Module) -> None:
        with torch.no_grad():
            for layer in weights_of(model)[:-1]:
                layer.weight.mul_(factor)

    return spoil


def dying(model: nn.Module) -> None:
    """Biases so low that no row gets over them."""
    with torch.no_grad():
        for layer in weights_of(model)[:-1]:
            layer.bias.sub_(20.0)


def detached(model: nn.Module) -> None:
    """Only the biases of the last layer are trained, and there is nothing they could learn."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    last = weights_of(model)[-1]
    with torch.no_grad():
        last.weight.zero_()
    last.bias.requires_grad_(True)


def as_mlp(recipe: Recipe, depth: int, active: type[nn.Module]) -> Recipe:
    columns, outputs = recipe.task.inputs.shape[1], recipe.task.outputs
    return replace(
        recipe,
        network=f"mlp {depth}x64 {active.__name__}",
        build=lambda: mlp(columns, outputs, depth, 64, active, "none", 0.0),
    )


def with_optimizer(recipe: Recipe, section: optimizers.AnyOptimizer, batch: int) -> Recipe:
    return replace(recipe, optimizer=section, schedule="constant", batch=batch, steps=600)


def sgd(rate: float, momentum: float = 0.0) -> optimizers.AnyOptimizer:
    return optimizers.Sgd(name="sgd", learning_rate=rate, momentum=momentum)


def of_table(seed: int) -> Recipe:
    """The first clean run from a seed on that learns from a table."""
    while (recipe := clean(seed)).task.kind in ("images", "text"):
        seed += 7919
    return recipe


FAULTS: Mapping[str, tuple[Callable[[int], Recipe], frozenset[str]]] = {
    "rate 10^5 too low": (
        lambda seed: rate_times(replace(clean(seed), schedule="constant"), 1e-5),
        frozenset({"learning_rate_low", "plateau", "lost_updates"}),
    ),
    "rate 1,000 too high": (
        lambda seed: rate_times(replace(clean(seed), schedule="constant", steps=600), 1000),
        frozenset({"learning_rate_high", "divergence", "explosion", "oscillation", "dead_units"}),
    ),
    "rate climbs without end": (
        lambda seed: replace(rate_times(clean(seed), 300), schedule="climb", steps=900),
        frozenset({"learning_rate_high", "divergence", "explosion", "oscillation", "dead_units"}),
    ),
    "ten sigmoids deep": (
        lambda seed: with_optimizer(as_mlp(of_table(seed), 10, nn.Sigmoid), sgd(0.05, 0.9), 64),
        frozenset({"vanishing", "plateau"}),
    ),
    "weights start ten times too small": (
        lambda seed: replace(
            with_optimizer(as_mlp(of_table(seed), 6, nn.Tanh), sgd(0.05), 64),
            break_model=scaled_weights(0.1),
        ),
        frozenset({"vanishing", "plateau"}),
    ),
    "dead from the start": (
        lambda seed: replace(
            with_optimizer(as_mlp(of_table(seed), 3, nn.ReLU), sgd(0.05, 0.9), 64),
            break_model=dying,
        ),
        frozenset({"dead_units"}),
    ),
    "momentum of 0.999 at a high rate": (
        lambda seed: with_optimizer(as_mlp(of_table(seed), 2, nn.Tanh), sgd(3.0, 0.999), 256),
        frozenset({"oscillation", "divergence", "learning_rate_high", "explosion"}),
    ),
    "nothing but a bias is trained": (
        lambda seed: replace(
            with_optimizer(as_mlp(of_table(seed), 2, nn.ReLU), sgd(1e-6), 256),
            break_model=detached,
        ),
        frozenset({"plateau", "learning_rate_low", "vanishing", "lost_updates"}),
    ),
}
"""Each fault with the words that name it rightly."""


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
    windows = Windows(window, [layers, units], [EarlyTrouble()], tell=told.append)
    step = OptimizerStep(model, objective, optimizer, max_norm=1.0 if recipe.seed % 2 else math.inf)
    schedule = (
        (lambda s: 1.02**s * 1e-6)
        if recipe.schedule == "climb"
        else a_schedule(recipe.schedule, recipe.steps)
    )
    before = evaluate(task, model)
    fit(
        Job(
            model=model,
            feed=feed,
            step=MeasuredStep(step, windows, [layers, units]),
            knobs=(LearningRate(optimizer, schedule),),
            stop_rules=(StepLimit(recipe.steps),),
            observers=(windows,),
        )
    )
    return Found(recipe, told, before, evaluate(task, model))


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
    """A line for each fault: how often something is told, how often rightly, and when."""
    lines = ["| fault | told | rightly named | at step (median) |", "| --- | --- | --- | --- |"]
    for name, (build, right) in FAULTS.items():
        runs = [train(build(first + number)) for number in range(wanted)]
        told = sum(bool(run.told) for run in runs)
        hits = [[n.numbers["step"] for n in run.told if n.kind in right] for run in runs]
        steps = [min(hit) for hit in hits if hit]
        for run in runs:
            print(f"{name}:", describe(run), flush=True)
        at = f"{median(steps):.0f}" if steps else ""
        lines.append(f"| {name} | {told} of {wanted} | {len(steps)} of {wanted} | {at} |")
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
