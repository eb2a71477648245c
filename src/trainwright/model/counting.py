"""Trained numbers of networks, by arithmetic: a plan needs them before torch is there."""

from __future__ import annotations

from itertools import pairwise

from trainwright.contract.model import Gpt, ResNet
from trainwright.model.shape import ImageShape, TokenShape


def count_resnet(section: ResNet, shape: ImageShape) -> int:
    """Trained numbers of the network."""
    widths: list[int] = [section.width * 2**stage for stage in range(len(section.blocks))]
    kernel = 16 if section.stem == "half" else 9
    total = shape.size[0] * section.width * kernel
    for width, count in zip(widths, section.blocks, strict=True):
        total += count * (2 * 9 * width * width + 2 * 2 * width)
    for inner, outer in pairwise(widths):
        total += 2 * inner + 9 * inner * outer + 2 * outer + 9 * outer * outer + inner * outer
    return total + 2 * widths[-1] + (widths[-1] + 1) * shape.outputs


def count_gpt(section: Gpt, shape: TokenShape) -> int:
    """Trained numbers of the network; the head is counted with the embedding."""
    width = section.width
    places = section.context * width if section.positions == "learned" else 0
    return shape.outputs * width + places + section.layers * (12 * width**2 + 2 * width) + width
