"""Multi-layer perceptron."""

from __future__ import annotations

from torch import nn

from trainwright.contract.sections.model.table_networks import Mlp
from trainwright.model.input_shape import TableShape
from trainwright.model.table_columns import TableNetwork, build_columns


def build_mlp(section: Mlp, shape: TableShape) -> TableNetwork:
    """Network of a contract for a table of this shape; its initial weights are drawn from torch's
    global generator."""
    columns = build_columns(section, shape)
    return TableNetwork(columns, _mlp(section, columns.width, shape.outputs))


def _mlp(section: Mlp, width: int, outputs: int) -> nn.Module:
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}[section.activation]
    layers: list[nn.Module] = []
    for units in section.hidden:
        layers += [nn.Linear(width, units), activation(), nn.Dropout(section.dropout)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, outputs))
