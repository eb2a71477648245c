"""Residual network for tables."""

from __future__ import annotations

from torch import nn

from trainwright.contract.sections.model.table_networks import TabularResNet
from trainwright.model.input_shape import TableShape
from trainwright.model.residual import Residual, skip_chances
from trainwright.model.table_columns import TableNetwork, build_columns


def build_tabular_resnet(section: TabularResNet, shape: TableShape) -> TableNetwork:
    """Network of a contract for a table of this shape; its initial weights are drawn from torch's
    global generator."""
    columns = build_columns(section, shape)
    return TableNetwork(columns, _body(section, columns.width, shape.outputs))


def _body(section: TabularResNet, width: int, outputs: int) -> nn.Module:
    hidden = round(section.width * section.hidden_factor)
    blocks = [
        Residual(
            nn.Sequential(
                nn.LayerNorm(section.width),
                nn.Linear(section.width, hidden),
                nn.ReLU(),
                nn.Dropout(section.hidden_dropout),
                nn.Linear(hidden, section.width),
                nn.Dropout(section.residual_dropout),
            ),
            skipped,
        )
        for skipped in skip_chances(section.blocks, section.stochastic_depth)
    ]
    head = [nn.LayerNorm(section.width), nn.ReLU(), nn.Linear(section.width, outputs)]
    return nn.Sequential(nn.Linear(width, section.width), *blocks, *head)
