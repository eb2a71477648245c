"""Trainings with one thing broken."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn

from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training import optimizer as optimizers
from troubles.recipes import Recipe, clean
from troubles.tasks import mlp


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
        frozenset(
            {"leap", "learning_rate_high", "divergence", "explosion", "oscillation", "dead_units"}
        ),
    ),
    "rate climbs without end": (
        lambda seed: replace(rate_times(clean(seed), 300), schedule="climb", steps=900),
        frozenset(
            {"leap", "learning_rate_high", "divergence", "explosion", "oscillation", "dead_units"}
        ),
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
        frozenset({"leap", "oscillation", "divergence", "learning_rate_high", "explosion"}),
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
