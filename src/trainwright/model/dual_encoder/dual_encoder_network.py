"""Dual encoder of images and texts (CLIP: Radford et al. 2021, arXiv:2103.00020)."""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.dual_encoder import DualEncoder
from trainwright.contract.sections.model.pretrained import Pretrained
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

    def __init__(self, image: nn.Module, text: nn.Module, temperature: float) -> None:
        super().__init__()
        self.image = image
        self.text = text
        self.log_scale = first_log_scale(temperature)

    def forward(
        self,
        pixels: Tensor | None = None,
        input_ids: Int[Tensor, "B L"] | None = None,
        attention_mask: Int[Tensor, "B L"] | None = None,
    ) -> Float[Tensor, "B outputs"]:
        """Embeddings."""
        length = embedding_length(self.log_scale, self)
        sides = []
        if pixels is not None:
            sides.append(unit_length(self.image(pixels)) * length)
        if input_ids is not None:
            states = self.text(input_ids=input_ids, attention_mask=attention_mask)
            sides.append(unit_length(states) * length)
        return torch.cat(sides, dim=1)


def embedding_length(log_scale: nn.Parameter, network: nn.Module) -> Tensor:
    """sqrt(s) of the embeddings of a network. The parameter itself is clipped, as by the authors:
    behind a clamp its gradient would be 0 for ever."""
    if network.training:
        # Not a change that graphs of the same step must know: the first forward pass made it.
        log_scale.data.clamp_(max=_MOST_LOG_SCALE)
    return (log_scale.clamp(max=_MOST_LOG_SCALE) / 2).exp()


def first_log_scale(temperature: float) -> nn.Parameter:
    """ln s of a temperature 1 / s, to be learned."""
    return nn.Parameter(torch.tensor(-math.log(temperature)))


def unit_length(rows: Tensor) -> Tensor:
    """Rows of length 1, in fp32 where they come in 16 bits."""
    wide = rows.float() if rows.dtype in (torch.bfloat16, torch.float16) else rows
    return functional.normalize(wide, dim=1)


def build_own_towers(
    section: DualEncoder, shape: PairShape
) -> tuple[nn.Module | None, nn.Module | None]:
    """The encoders that are no bases of transformers: of images, of texts."""
    image, text = section.image, section.text
    images = ImageShape(shape.size, shape.mean, shape.deviation, section.width)
    of_images = None if isinstance(image, Pretrained) else build_resnet(image, images)
    if isinstance(text, Pretrained):
        return of_images, None
    return of_images, build_text_tower(text, shape.vocabulary, shape.length, section.width)


def own_blocks(tower: nn.Module) -> list[nn.Module]:
    """Blocks of an encoder of ours."""
    if isinstance(tower, ImageNetwork):
        return tower.blocks
    layers = tower.get_submodule("layers")
    assert isinstance(layers, nn.ModuleList)
    return list(layers)


def lay_out_images(network: nn.Module, memory_format: torch.memory_format) -> None:
    """Set the memory layout of images and convolutions; a base keeps its own."""
    assert isinstance(network, DualEncoderNetwork)
    if isinstance(network.image, ImageNetwork):
        network.image.lay_out(memory_format)
