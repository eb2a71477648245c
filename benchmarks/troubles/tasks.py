"""What is learned, and by which network, drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.contract.sections.model.resnet import ResNet
from trainwright.contract.sections.model.table_networks import TabularResNet
from trainwright.model.gpt.gpt_network import GptNetwork
from trainwright.model.input_shape import ImageShape, TableShape, TokenShape
from trainwright.model.resnet.resnet_network import build_resnet
from trainwright.model.tabular_resnet.tabular_resnet_network import build_tabular_resnet

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
        return "tabular_resnet", lambda: Numeric(build_tabular_resnet(tabular, shape))
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
