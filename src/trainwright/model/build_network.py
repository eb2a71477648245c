"""Build the network of a contract."""

from __future__ import annotations

from typing import Literal, assert_never

import torch
from torch import nn

from trainwright.contract.sections.model import Gpt, Mlp, Network, ResNet, TabularResNet
from trainwright.model.gpt.gpt_network import GptNetwork
from trainwright.model.input_shape import ImageShape, Shape, TableShape, TokenShape
from trainwright.model.resnet.resnet_network import ImageNetwork, build_resnet
from trainwright.model.tabular_network import TableNetwork, build_table_network

BuiltNetwork = TableNetwork | ImageNetwork | GptNetwork
"""A module made of blocks."""


def build_network(section: Network, shape: Shape) -> BuiltNetwork:
    """Network for data of this shape; its initial weights are drawn from torch's global
    generator."""
    match section:
        case Mlp() | TabularResNet():
            assert isinstance(shape, TableShape)
            return build_table_network(section, shape)
        case ResNet():
            assert isinstance(shape, ImageShape)
            return build_resnet(section, shape)
        case Gpt():
            assert isinstance(shape, TokenShape)
            return GptNetwork(section, shape)
        case _:
            assert_never(section)


def lay_out(model: nn.Module, memory_format: Literal["contiguous", "channels_last"]) -> None:
    """Set the memory layout of a network with convolutions; others have one layout only."""
    if isinstance(model, ImageNetwork):
        is_last = memory_format == "channels_last"
        model.lay_out(torch.channels_last if is_last else torch.contiguous_format)
