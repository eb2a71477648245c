"""Family `ft_transformer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.ft_transformer import FtTransformer
from trainwright.model.family import NetworkFamily
from trainwright.model.input_shape import Shape
from trainwright.model.table_counting import count_linear, of_table

if TYPE_CHECKING:
    from torch import nn


@final
class FtTransformerFamily(NetworkFamily[FtTransformer]):
    """Transformers over the columns of a table."""

    def build(self, section: FtTransformer, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.ft_transformer.ft_transformer_network import FtTransformerNetwork

        return FtTransformerNetwork(section, of_table(shape))

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Blocks of attention and feed-forward."""
        from trainwright.model.ft_transformer.ft_transformer_network import FtTransformerNetwork

        assert isinstance(network, FtTransformerNetwork)
        return network.blocks

    def count_layers(self, section: FtTransformer) -> int:
        """Blocks."""
        return section.layers

    def count_parameters(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`. By arithmetic: a bundle is checked by it before it is built."""
        table, width = of_table(shape), section.width
        columns = table.numeric + len(table.cardinalities)
        tokenizer = width * (1 + columns + table.numeric + sum(table.cardinalities))
        norm = 2 * width
        block = 2 * norm + 4 * count_linear(width, width)
        block += count_linear(width, section.wide_units)
        block += count_linear(section.hidden_units, width)
        head = norm + count_linear(width, shape.outputs)
        return tokenizer + section.layers * block - norm + head

    def count_largest(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`."""
        table = of_table(shape)
        columns = table.numeric + len(table.cardinalities)
        sizes = (*table.cardinalities, columns, section.wide_units, shape.outputs)
        return section.width * max(2 * section.width, *sizes)
