"""Build the network of a contract."""

from __future__ import annotations

from torch import nn

from trainwright.contract.sections.model.traits import ModelSection
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape


def build_network(section: ModelSection, shape: Shape) -> nn.Module:
    """Network for data of this shape; its initial weights are drawn from torch's global
    generator."""
    return network_family(section).build(section, shape)
