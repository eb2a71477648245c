"""Family `mlp`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.table_networks import Mlp
from trainwright.model.family import NetworkFamily
from trainwright.model.input_shape import Shape, TableShape
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
class MlpFamily(NetworkFamily[Mlp]):
    """Multi-layer perceptrons over numbers and embedded categories."""

    def build(self, section: Mlp, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.mlp.mlp_network import build_mlp

        return build_mlp(section, of_table(shape))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:  # noqa: ARG002
        """None."""
        return ()

    def head(self, network: nn.Module) -> nn.Linear:
        """The last layer of the body."""
        from trainwright.model.table_columns import TableNetwork

        assert isinstance(network, TableNetwork)
        return network.head

    def count_layers(self, section: Mlp) -> int:
        """Hidden layers."""
        return len(section.hidden)

    def count_parameters(self, section: Mlp, shape: Shape) -> int:
        """See `NetworkFamily`."""
        layers = _layers(section, of_table(shape))
        dense = sum(count_linear(inner, outer) for inner, outer in pairwise(layers))
        return count_column_parameters(section, of_table(shape)) + dense

    def count_largest(self, section: Mlp, shape: Shape) -> int:
        """See `NetworkFamily`."""
        layers = _layers(section, of_table(shape))
        sizes = (inner * outer for inner, outer in pairwise(layers))
        return max(*embedding_sizes(section, of_table(shape)), *sizes, 0)

    def count_products(self, section: Mlp, shape: Shape) -> int:
        """See `NetworkFamily`."""
        layers = _layers(section, of_table(shape))
        dense = sum(inner * outer for inner, outer in pairwise(layers))
        return count_column_products(section, of_table(shape)) + dense

    def count_activations(self, section: Mlp, shape: Shape) -> int:
        """See `NetworkFamily`."""
        # ReLU keeps its output, GELU and SiLU their input beside it. Under dropout that input or
        # output, the mask, and what is left of it.
        copies = 3 if section.dropout else 1 if section.activation == "relu" else 2
        hidden = copies * sum(section.hidden)
        return count_column_activations(section, of_table(shape)) + hidden + 2 * shape.outputs


def _layers(section: Mlp, shape: TableShape) -> tuple[int, ...]:
    return (table_width(section, shape), *section.hidden, shape.outputs)
