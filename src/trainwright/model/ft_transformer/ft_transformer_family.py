"""Family `ft_transformer`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.table_networks import FtTransformer
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

    def head(self, network: nn.Module) -> nn.Linear:
        """The layer that reads [CLS]."""
        from trainwright.model.ft_transformer.ft_transformer_network import FtTransformerNetwork

        assert isinstance(network, FtTransformerNetwork)
        return network.head

    def count_layers(self, section: FtTransformer) -> int:
        """Blocks."""
        return section.layers

    def count_parameters(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`."""
        table, width = of_table(shape), section.width
        tokenizer = width * (_tokens(shape) + table.numeric + sum(table.cardinalities))
        norm = 2 * width
        block = 2 * norm + 4 * count_linear(width, width)
        block += count_linear(width, section.wide_units)
        block += count_linear(section.hidden_units, width)
        head = norm + count_linear(width, shape.outputs)
        return tokenizer + section.layers * block - norm + head

    def count_largest(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`."""
        columns = _tokens(shape) - 1
        sizes = (*of_table(shape).cardinalities, columns, section.wide_units, shape.outputs)
        return section.width * max(2 * section.width, *sizes)

    def count_products(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`."""
        width, tokens = section.width, _tokens(shape)
        forward = width * (section.wide_units + section.hidden_units)
        asking = 2 * width**2 + 2 * tokens * width + forward
        read = section.layers * tokens * 2 * width**2
        return _asking(section, shape) * asking + read + width * shape.outputs

    def count_activations(self, section: FtTransformer, shape: Shape) -> int:
        """See `NetworkFamily`."""
        width, hidden, tokens = section.width, section.hidden_units, _tokens(shape)
        # Of a token that asks: its query, what attention gives and a number of each head's softmax,
        # the norm with its input, the feed-forward part, and the masks of dropout.
        asking = 4 * width + section.heads + 2 + section.wide_units + hidden
        asking += hidden * ((section.activation == "reglu") + bool(section.hidden_dropout))
        asking += 2 * width * bool(section.residual_dropout)
        if section.attention_dropout:
            # Attention in parts: its weights, their mask and what is left.
            asking += 3 * section.heads * tokens - section.heads
        # Of each token: what the block reads, keys and values; behind the first block its norm.
        read = section.layers * 3 * width + (section.layers - 1) * (width + 2)
        ends = 2 * width + 4 + 2 * shape.outputs
        return _asking(section, shape) * asking + tokens * read + ends


def _tokens(shape: Shape) -> int:
    """[CLS] and a token for each column."""
    table = of_table(shape)
    return 1 + table.numeric + len(table.cardinalities)


def _asking(section: FtTransformer, shape: Shape) -> int:
    """Queries of all blocks: every token's, but in the last block [CLS] alone."""
    return (section.layers - 1) * _tokens(shape) + 1
