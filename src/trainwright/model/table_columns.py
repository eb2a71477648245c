"""Column encoder that networks for tables share: scaled numbers and embedded categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from trainwright.model.input_shape import PERIODIC_FREQUENCIES, PERIODIC_WIDTH, TableShape
from trainwright.model.residual import Residual
from trainwright.model.table_counting import ColumnSettings, embedding_widths

_SIGMA = 1.0
"""Standard deviation of the initial frequencies; columns are standardised beforehand."""


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

    @property
    def head(self) -> nn.Linear:
        """The last layer."""
        *_, last = self.body.children()
        assert isinstance(last, nn.Linear)
        return last

    def forward(
        self, numeric: Float[Tensor, "B F"], categories: Int[Tensor, "B G"]
    ) -> Float[Tensor, "B outputs"]:
        """Logits or standardised values."""
        out: Tensor = self.body(self.columns(numeric, categories))
        return out


@final
class TableColumns(nn.Module):
    """Concatenates numeric columns and one embedding per categorical column: [B, width]."""

    def __init__(self, shape: TableShape, widths: Sequence[int], numbers: Plain | Periodic) -> None:
        super().__init__()
        self.numbers = numbers
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


def build_columns(section: ColumnSettings, shape: TableShape) -> TableColumns:
    """Encoder for a table of this shape."""
    widths = embedding_widths(section, shape)
    return TableColumns(shape, widths, _numbers(section, shape.numeric))


def _numbers(section: ColumnSettings, columns: int) -> Plain | Periodic:
    if section.numeric_embedding == "none" or not columns:
        return Plain(columns)
    return Periodic(columns, PERIODIC_FREQUENCIES, PERIODIC_WIDTH, _SIGMA)
