"""Analytic parameter and FLOP counts of networks: a plan needs them before torch is imported."""

from __future__ import annotations

from itertools import pairwise
from typing import assert_never

from trainwright.contract.sections.model import Gpt, Mlp, Network, ResNet, TableModel, TabularResNet
from trainwright.model.input_shape import (
    PERIODIC_FREQUENCIES,
    PERIODIC_WIDTH,
    ImageShape,
    Shape,
    TableShape,
    TokenShape,
    embedding_widths,
    table_width,
)


def count_resnet(section: ResNet, shape: ImageShape) -> int:
    """Trainable parameters of the network."""
    widths: list[int] = [section.width * 2**stage for stage in range(len(section.blocks))]
    kernel = 16 if section.stem == "half" else 9
    total = shape.size[0] * section.width * kernel
    for width, count in zip(widths, section.blocks, strict=True):
        total += count * (2 * 9 * width * width + 2 * 2 * width)
    for inner, outer in pairwise(widths):
        total += 2 * inner + 9 * inner * outer + 2 * outer + 9 * outer * outer + inner * outer
    return total + 2 * widths[-1] + (widths[-1] + 1) * shape.outputs


def count_gpt(section: Gpt, shape: TokenShape) -> int:
    """Trainable parameters of the network; the head is tied to the embedding and counted once."""
    width = section.width
    places = section.context * width if section.positions == "learned" else 0
    return shape.outputs * width + places + section.layers * (12 * width**2 + 2 * width) + width


def count_parameters(section: Network, shape: Shape) -> int:
    """Trainable parameters of a network on data of this shape."""
    match section:
        case ResNet():
            assert isinstance(shape, ImageShape)
            return count_resnet(section, shape)
        case Gpt():
            assert isinstance(shape, TokenShape)
            return count_gpt(section, shape)
        case Mlp() | TabularResNet():
            assert isinstance(shape, TableShape)
            return _count_table(section, shape)
        case _:
            assert_never(section)


def count_largest(section: Network, shape: Shape) -> int:
    """Elements of the network's largest trainable tensor."""
    match section:
        case ResNet():
            assert isinstance(shape, ImageShape)
            widest: int = section.width * 2 ** (len(section.blocks) - 1)
            return max(9 * widest, shape.outputs) * widest
        case Gpt():
            assert isinstance(shape, TokenShape)
            places = section.context if section.positions == "learned" else 0
            return max(shape.outputs, 4 * section.width, places) * section.width
        case Mlp() | TabularResNet():
            assert isinstance(shape, TableShape)
            return _largest_of_table(section, shape)
        case _:
            assert_never(section)


def _largest_of_table(section: TableModel, shape: TableShape) -> int:
    widths, width = embedding_widths(section, shape), table_width(section, shape)
    embeddings = [size * one for size, one in zip(shape.cardinalities, widths, strict=True)]
    if section.numeric_embedding == "periodic" and shape.numeric:
        embeddings.append(shape.numeric * PERIODIC_FREQUENCIES)
        embeddings.append(2 * PERIODIC_FREQUENCIES * PERIODIC_WIDTH)
    match section:
        case Mlp():
            layers = (width, *section.hidden, shape.outputs)
            return max(*embeddings, *(inner * outer for inner, outer in pairwise(layers)), 0)
        case TabularResNet():
            hidden = round(section.width * section.hidden_factor)
            return max(*embeddings, section.width * max(width, hidden, shape.outputs), 0)
        case _:
            assert_never(section)


def _count_table(section: TableModel, shape: TableShape) -> int:
    widths, width = embedding_widths(section, shape), table_width(section, shape)
    embeddings = sum(size * one for size, one in zip(shape.cardinalities, widths, strict=True))
    if section.numeric_embedding == "periodic" and shape.numeric:
        embeddings += shape.numeric * PERIODIC_FREQUENCIES
        embeddings += _linear(2 * PERIODIC_FREQUENCIES, PERIODIC_WIDTH)
    match section:
        case Mlp():
            layers = (width, *section.hidden, shape.outputs)
            return embeddings + sum(_linear(inner, outer) for inner, outer in pairwise(layers))
        case TabularResNet():
            inner = section.width
            hidden = round(inner * section.hidden_factor)
            norm = 2 * inner
            block = norm + _linear(inner, hidden) + _linear(hidden, inner)
            head = norm + _linear(inner, shape.outputs)
            return embeddings + _linear(width, inner) + section.blocks * block + head
        case _:
            assert_never(section)


def _linear(inputs: int, outputs: int) -> int:
    return (inputs + 1) * outputs


def count_products(section: Network, shape: Shape) -> int:
    """Multiply-accumulates in the matrix products and convolutions of the forward pass of one row;
    for text, of a window of the whole context. Training takes three times as many."""
    match section:
        case ResNet():
            assert isinstance(shape, ImageShape)
            return _resnet_products(section, shape)
        case Gpt(layers=layers, width=width, context=context):
            assert isinstance(shape, TokenShape)
            of_a_token = layers * (12 * width**2 + 2 * context * width) + shape.outputs * width
            return context * of_a_token
        case Mlp() | TabularResNet():
            assert isinstance(shape, TableShape)
            return _table_products(section, shape)
        case _:
            assert_never(section)


def _resnet_products(section: ResNet, shape: ImageShape) -> int:
    widths: list[int] = [section.width * 2**stage for stage in range(len(section.blocks))]
    channels, height, width = shape.size
    kernel, stride = (16, 2) if section.stem == "half" else (9, 1)
    height, width = height // stride, width // stride
    total = height * width * channels * widths[0] * kernel
    for stage, count in enumerate(section.blocks):
        outer = widths[stage]
        if stage:
            inner, height, width = widths[stage - 1], -(-height // 2), -(-width // 2)
            total += height * width * (9 * inner * outer + 9 * outer * outer + inner * outer)
        total += height * width * count * 2 * 9 * outer * outer
    return total + widths[-1] * shape.outputs


def _table_products(section: TableModel, shape: TableShape) -> int:
    width, total = table_width(section, shape), 0
    if section.numeric_embedding == "periodic":
        total = shape.numeric * 2 * PERIODIC_FREQUENCIES * PERIODIC_WIDTH
    match section:
        case Mlp():
            layers = (width, *section.hidden, shape.outputs)
            return total + sum(inner * outer for inner, outer in pairwise(layers))
        case TabularResNet():
            inner = section.width
            hidden = round(inner * section.hidden_factor)
            total += width * inner + section.blocks * 2 * inner * hidden
            return total + inner * shape.outputs
        case _:
            assert_never(section)
