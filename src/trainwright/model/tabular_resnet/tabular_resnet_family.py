"""Family `tabular_resnet`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.table_networks import TabularResNet
from trainwright.model.family import NetworkFamily
from trainwright.model.input_shape import Shape
from trainwright.model.table_counting import (
    count_column_activations,
    count_column_parameters,
    count_column_products,
    count_linear,
    embedding_sizes,
    of_table,
    table_width,
)

if TYPE_CHECKING:
    from torch import nn


@final
class TabularResNetFamily(NetworkFamily[TabularResNet]):
    """Residual networks for tables."""

    def build(self, section: TabularResNet, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.tabular_resnet.tabular_resnet_network import build_tabular_resnet

        return build_tabular_resnet(section, of_table(shape))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Residual blocks."""
        from trainwright.model.table_columns import TableNetwork

        assert isinstance(network, TableNetwork)
        return network.blocks

    def head(self, network: nn.Module) -> nn.Linear:
        """The last layer of the body."""
        from trainwright.model.table_columns import TableNetwork

        assert isinstance(network, TableNetwork)
        return network.head

    def count_layers(self, section: TabularResNet) -> int:
        """Residual blocks."""
        return section.blocks

    def count_parameters(self, section: TabularResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        table = of_table(shape)
        width, inner, hidden = table_width(section, table), section.width, _hidden(section)
        norm = 2 * inner
        block = norm + count_linear(inner, hidden) + count_linear(hidden, inner)
        head = norm + count_linear(inner, shape.outputs)
        columns = count_column_parameters(section, table)
        return columns + count_linear(width, inner) + section.blocks * block + head

    def count_largest(self, section: TabularResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        table = of_table(shape)
        widest = max(table_width(section, table), _hidden(section), shape.outputs)
        return max(*embedding_sizes(section, table), section.width * widest, 0)

    def count_products(self, section: TabularResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        table, inner = of_table(shape), section.width
        dense = table_width(section, table) * inner + section.blocks * 2 * inner * _hidden(section)
        return count_column_products(section, table) + dense + inner * shape.outputs

    def count_activations(self, section: TabularResNet, shape: Shape) -> int:
        """See `NetworkFamily`."""
        inner = section.width
        block = 2 * inner + _hidden(section) * (3 if section.hidden_dropout else 1)
        block += inner * bool(section.residual_dropout)
        columns = count_column_activations(section, of_table(shape))
        return columns + section.blocks * block + 2 * inner + 2 * shape.outputs


def _hidden(section: TabularResNet) -> int:
    return round(section.width * section.hidden_factor)
