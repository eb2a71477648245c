"""Family `dual_encoder`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.model.family import MemoryFormat, NetworkFamily
from trainwright.model.input_shape import PairShape, Shape

if TYPE_CHECKING:
    from torch import nn


@final
class DualEncoderFamily(NetworkFamily[DualEncoder]):
    """Dual encoders of images and texts."""

    def build(self, section: DualEncoder, shape: Shape) -> nn.Module:
        """See `NetworkFamily`."""
        from trainwright.model.dual_encoder.dual_encoder_network import DualEncoderNetwork

        assert isinstance(shape, PairShape), "the rules refuse other data"
        return DualEncoderNetwork(section, shape)

    def blocks(self, network: nn.Module) -> Iterable[nn.Module]:
        """Those of both encoders."""
        from trainwright.model.dual_encoder.dual_encoder_network import DualEncoderNetwork

        assert isinstance(network, DualEncoderNetwork)
        return network.blocks

    def lay_out(self, network: nn.Module, memory_format: MemoryFormat) -> None:
        """Set the layout of images and convolutions."""
        import torch

        from trainwright.model.dual_encoder.dual_encoder_network import lay_out_images

        is_last = memory_format == "channels_last"
        lay_out_images(network, torch.channels_last if is_last else torch.contiguous_format)

    def count_layers(self, section: DualEncoder) -> int:
        """Blocks of both encoders."""
        return section.block_count
