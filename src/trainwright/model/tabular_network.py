"""Networks for tables: MLP and residual network over scaled numbers and embedded categories."""

from __future__ import annotations

from typing import assert_never, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainwright.contract.sections.model import Mlp, TableModel, TabularResNet
from trainwright.contract.sections.section import Auto
from trainwright.model.input_shape import (
    PERIODIC_FREQUENCIES,
    PERIODIC_WIDTH,
    TableShape,
    embedding_width,
)
from trainwright.model.residual import Residual, skip_chances

_SIGMA = 1.0
"""Standard deviation of the initial frequencies; columns are standardised beforehand."""


def build_table_network(section: TableModel, shape: TableShape) -> TableNetwork:
    """Network of a contract for a table of this shape; its initial weights are drawn from torch's
    global generator."""
    columns = TableColumns(shape, section.embedding_dim, _numbers(section, shape.numeric))
    match section:
        case Mlp():
            return TableNetwork(columns, _mlp(section, columns.width, shape.outputs))
        case TabularResNet():
            return TableNetwork(columns, _resnet(section, columns.width, shape.outputs))
        case _:
            assert_never(section)


@final
class TableNetwork(nn.Module):
    """Column encoder and body: (numeric [B, F], categories [B, G]) -> [B, outputs].

    The outputs are logits for classes, or standardised values for regression.
    """

    def __init__(self, columns: TableColumns, body: nn.Module) -> None:
        super().__init__()
        self.columns = columns
        self.body = body

    @property
    def blocks(self) -> list[nn.Module]:
        """Residual blocks from first to last; an MLP has none."""
        return [module for module in self.body.children() if isinstance(module, Residual)]

    def forward(
        self, numeric: Float[Tensor, "B F"], categories: Int[Tensor, "B G"]
    ) -> Float[Tensor, "B outputs"]:
        """Logits or standardised values."""
        out: Tensor = self.body(self.columns(numeric, categories))
        return out


@final
class TableColumns(nn.Module):
    """Concatenates numeric columns and one embedding per categorical column: [B, width]."""

    def __init__(
        self, shape: TableShape, embedding_dim: Auto | int, numbers: Plain | Periodic
    ) -> None:
        super().__init__()
        self.numbers = numbers
        widths = [
            embedding_width(size) if embedding_dim == "auto" else embedding_dim
            for size in shape.cardinalities
        ]
        self.embeddings = nn.ModuleList(
            nn.Embedding(size, width)
            for size, width in zip(shape.cardinalities, widths, strict=True)
        )
        self.width = numbers.width + sum(widths)

    def forward(
        self, numeric: Float[Tensor, "B F"], categories: Int[Tensor, "B G"]
    ) -> Float[Tensor, "B width"]:
        """Each row as one vector."""
        embedded = [
            embedding(codes)
            for embedding, codes in zip(self.embeddings, categories.unbind(1), strict=True)
        ]
        return torch.cat([self.numbers(numeric), *embedded], dim=1)


@final
class Plain(nn.Module):
    """Unchanged numbers."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.width = columns

    def forward(self, numeric: Float[Tensor, "B F"]) -> Float[Tensor, "B F"]:
        """The numbers."""
        return numeric


@final
class Periodic(nn.Module):
    """Periodic embeddings of numbers, "PLR(lite)" of Gorishniy et al. 2022 (arXiv:2203.05556,
    section 3.3): x -> ReLU(W [cos 2 pi c x, sin 2 pi c x] + b), with learned frequencies c per
    column, initialised from N(0, sigma^2), and W and b shared by all columns. Each number itself is
    concatenated to its embedding."""

    def __init__(self, columns: int, frequencies: int, width: int, sigma: float) -> None:
        super().__init__()
        self.frequencies = nn.Parameter(sigma * torch.randn(columns, frequencies))
        self.linear = nn.Linear(2 * frequencies, width)
        self.width = columns * (width + 1)

    def forward(self, numeric: Float[Tensor, "B F"]) -> Float[Tensor, "B width"]:
        """The numbers, followed by their embeddings."""
        angles = 2 * torch.pi * self.frequencies * numeric.unsqueeze(2)
        waves = torch.cat([angles.cos(), angles.sin()], dim=2)
        embedded = torch.relu(self.linear(waves)).flatten(1)
        return torch.cat([numeric, embedded], dim=1)


def _numbers(section: TableModel, columns: int) -> Plain | Periodic:
    if section.numeric_embedding == "none" or not columns:
        return Plain(columns)
    return Periodic(columns, PERIODIC_FREQUENCIES, PERIODIC_WIDTH, _SIGMA)


def _mlp(section: Mlp, width: int, outputs: int) -> nn.Module:
    activation = {"relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU}[section.activation]
    layers: list[nn.Module] = []
    for units in section.hidden:
        layers += [nn.Linear(width, units), activation(), nn.Dropout(section.dropout)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, outputs))


def _resnet(section: TabularResNet, width: int, outputs: int) -> nn.Module:
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
