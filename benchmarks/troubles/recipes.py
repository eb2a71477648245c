"""A training, drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

from torch import nn

from trainwright.contract.sections.training import optimizer as optimizers
from trainwright.optim.lr_schedule import (
    Schedule,
    constant,
    cosine,
    cosine_with_warmup,
    one_cycle,
    warmup_stable_decay,
)
from troubles.tasks import Task, a_network, a_task


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
