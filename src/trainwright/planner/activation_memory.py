"""Analytic memory estimate of a network's training."""

from __future__ import annotations

from typing import assert_never

from trainwright.contract.sections.model import Gpt, Mlp, Network, ResNet, TabularResNet
from trainwright.contract.sections.optimizer import (
    Adafactor,
    Adam,
    AdamW,
    AdamW8bit,
    AnyOptimizer,
    Lamb,
    Lion,
    Muon,
    ScheduleFreeAdamW,
    Sgd,
)
from trainwright.model.input_shape import (
    PERIODIC_FREQUENCIES,
    PERIODIC_WIDTH,
    ImageShape,
    Shape,
    TableShape,
    TokenShape,
    table_width,
)

_NUMBER = 4


def activation_bytes(section: Network, shape: Shape) -> int:
    """Bytes of activations that a fp32 forward pass keeps per row for the backward pass, loss
    included."""
    match section:
        case Gpt():
            assert isinstance(shape, TokenShape)
            return _gpt(section, shape)
        case ResNet():
            assert isinstance(shape, ImageShape)
            return _resnet(section, shape)
        case Mlp() | TabularResNet():
            assert isinstance(shape, TableShape)
            return _table(section, shape)
        case _:
            assert_never(section)


def state_bytes(section: AnyOptimizer) -> float:
    """Bytes of optimizer state per trained parameter."""
    match section:
        case Adam() | AdamW() | Lamb() | ScheduleFreeAdamW():
            return 8.0
        case Sgd():
            return 4.0 if section.momentum else 0.0
        case Lion() | Muon():
            return 4.0
        case Adafactor():
            return 0.5
        case AdamW8bit():
            return 2.1
        case _:
            assert_never(section)


def _gpt(section: Gpt, shape: TokenShape) -> int:
    width, length = section.width, section.context
    # Norms and their inputs, queries, keys and values, what attention gives, and the wide layer
    # before and behind its GELU; two numbers of each norm, one of each head's softmax.
    block = 16 * width + section.heads + 5
    if section.positions == "rotary":
        block += 3 * width
    ends = 2 * width + 2 * shape.outputs
    if section.dropout:
        # Attention in parts: its weights, their mask and what is left, in the place of fewer copies
        # of queries, keys and values; two masks behind the parts of the block.
        block += 3 * section.heads * length - width
        ends += width
    return _NUMBER * length * (section.layers * block + ends)


def _resnet(section: ResNet, shape: ImageShape) -> int:
    places = shape.size[1] * shape.size[2] // (4 if section.stem == "half" else 1)
    numbers = shape.size[0] * shape.size[1] * shape.size[2]
    width = section.width
    for stage, count in enumerate(section.blocks):
        if stage:
            smaller = -(-places // 4)
            # Norm and ReLU before it, then a convolution, a norm and a ReLU of the new width.
            numbers += 2 * width * places + 2 * 2 * width * smaller
            width, places = 2 * width, smaller
        numbers += 4 * count * width * places
    return _NUMBER * (numbers + 2 * width * places)


def _table(section: Mlp | TabularResNet, shape: TableShape) -> int:
    numbers = table_width(section, shape)
    if section.numeric_embedding == "periodic":
        numbers += shape.numeric * (3 * PERIODIC_FREQUENCIES + 1 + PERIODIC_WIDTH)
    match section:
        case Mlp():
            for units in section.hidden:
                numbers += units * (3 if section.dropout else 1)
        case TabularResNet():
            inner = section.width
            hidden = round(inner * section.hidden_factor)
            block = 2 * inner + hidden * (3 if section.hidden_dropout else 1)
            block += inner * bool(section.residual_dropout)
            numbers += section.blocks * block + 2 * inner
        case _:
            assert_never(section)
    return _NUMBER * (numbers + 2 * shape.outputs)
