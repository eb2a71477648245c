"""Dual encoder of images and texts (CLIP: Radford et al. 2021, arXiv:2103.00020)."""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.model.dual_encoder.text_towers import build_text_tower
from trainwright.model.input_shape import ImageShape, PairShape
from trainwright.model.resnet.resnet_network import ImageNetwork, build_resnet

_MOST_LOG_SCALE = math.log(100)


@final
class DualEncoderNetwork(nn.Module):
    """(pixels [B, C, H, W], input_ids [B, L], attention_mask [B, L]) -> [B, 2 D]: embeddings of the
    images beside those of the texts.

    Both have the length sqrt(s), s the learned inverse temperature, so that the product of an image
    and a text is their logit s cos. Of images or texts alone the output is [B, D].
    """

    def __init__(self, section: DualEncoder, shape: PairShape) -> None:
        super().__init__()
        images = ImageShape(shape.size, shape.mean, shape.deviation, section.width)
        self.image = build_resnet(section.image, images)
        self.text = build_text_tower(section.text, shape.vocabulary, shape.length, section.width)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(section.temperature)))

    @property
    def blocks(self) -> list[nn.Module]:
        """Blocks of the image encoder, then of the text encoder."""
        layers = self.text.get_submodule("layers")
        assert isinstance(layers, nn.ModuleList)
        return [*self.image.blocks, *layers]

    def forward(
        self,
        pixels: Tensor | None = None,
        input_ids: Int[Tensor, "B L"] | None = None,
        attention_mask: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B outputs"]:
        """Embeddings."""
        length = self._length()
        sides = []
        if pixels is not None:
            sides.append(_unit(self.image(pixels)) * length)
        if input_ids is not None:
            mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
            sides.append(_unit(self.text(input_ids, mask)) * length)
        return torch.cat(sides, dim=1)

    def _length(self) -> Tensor:
        """sqrt(s). The parameter itself is clipped, as by the authors: behind a clamp its gradient
        would be 0 for ever."""
        if self.training:
            # Not a change that graphs of the same step must know: the first forward pass made it.
            self.log_scale.data.clamp_(max=_MOST_LOG_SCALE)
        return (self.log_scale.clamp(max=_MOST_LOG_SCALE) / 2).exp()


def _unit(rows: Tensor) -> Tensor:
    """Rows of length 1, in fp32 where they come in 16 bits."""
    wide = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    return functional.normalize(wide, dim=1)


def lay_out_images(network: nn.Module, memory_format: torch.memory_format) -> None:
    """Set the memory layout of images and convolutions."""
    assert isinstance(network, DualEncoderNetwork)
    assert isinstance(network.image, ImageNetwork)
    network.image.lay_out(memory_format)
