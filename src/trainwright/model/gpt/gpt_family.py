"""Family `gpt`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.gpt import Gpt
from trainwright.model.family import NetworkFamily
from trainwright.model.input_shape import Shape, TokenShape

if TYPE_CHECKING:
    from torch import nn


@final
class GptFamily(NetworkFamily[Gpt]):
    """Decoder-only transformers."""

    def build(self, section: Gpt, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.gpt.gpt_network import GptNetwork

        assert isinstance(shape, TokenShape)
        return GptNetwork(section, shape)

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Blocks of attention and feed-forward."""
        from trainwright.model.gpt.gpt_network import GptNetwork

        assert isinstance(network, GptNetwork)
        return network.blocks

    def count_layers(self, section: Gpt) -> int:
        """Blocks."""
        return section.layers

    def count_parameters(self, section: Gpt, shape: Shape) -> int:
        """The head is tied to the embedding and counts once."""
        width = section.width
        places = section.context * width if section.positions == "learned" else 0
        blocks = section.layers * (12 * width**2 + 2 * width)
        return shape.outputs * width + places + blocks + width

    def count_largest(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        places = section.context if section.positions == "learned" else 0
        return max(shape.outputs, 4 * section.width, places) * section.width

    def count_products(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        width, context = section.width, section.context
        blocks = section.layers * (12 * width**2 + 2 * context * width)
        return context * (blocks + shape.outputs * width)

    def count_activations(self, section: Gpt, shape: Shape) -> int:
        """See `NetworkFamily`."""
        width, length = section.width, section.context
        # Norms and their inputs, queries, keys and values, what attention gives, and the wide layer
        # before and behind its GELU; two numbers of each norm, one of each head's softmax.
        block = 16 * width + section.heads + 5
        if section.positions == "rotary" or section.dropout:
            block += 3 * width
        ends = 2 * width + 2 * shape.outputs
        if section.dropout:
            # Attention in parts: its weights, their mask and what is left, in the place of the
            # softmax's numbers and fewer copies of queries, keys and values; two masks behind the
            # parts of the block.
            block += 3 * section.heads * length - width - section.heads
            ends += width
        return length * (section.layers * block + ends)
