"""Dual encoder of images and texts (CLIP: Radford et al. 2021), and its encoders of captions.
Needs torch."""

from __future__ import annotations

import math
from typing import assert_never, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.dual_encoder import (
    BagOfTokens,
    DualEncoder,
    TextTower,
    TextTransformer,
)
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.model.input_shape import ImageShape, PairShape
from trainwright.model.resnet.resnet_network import ImageNetwork, build_resnet

_WIDE = 4
"""Width of the feed-forward part over that of a token."""

_MOST_LOG_SCALE = math.log(100)


def build_text_tower(section: TextTower, vocabulary: int, length: int, outputs: int) -> nn.Module:
    """Encoder of texts of at most `length` tokens."""
    match section:
        case TextTransformer():
            return TransformerTower(section, vocabulary, length, outputs)
        case BagOfTokens():
            return BagTower(section, vocabulary, outputs)
        case Pretrained():
            raise AssertionError("the family of a base builds it")
        case _:
            assert_never(section)


@final
class BagTower(nn.Module):
    """(input_ids [B, L], attention_mask [B, L]) -> [B, outputs]: a projection of the mean
    embedding."""

    def __init__(self, section: BagOfTokens, vocabulary: int, outputs: int) -> None:
        super().__init__()
        self.embedding = _embedding(vocabulary, section.width)
        self.norm = nn.LayerNorm(section.width)
        self.dropout = nn.Dropout(section.dropout)
        self.head = nn.Linear(section.width, outputs)
        self.layers = nn.ModuleList()

    def forward(
        self, input_ids: Int[Tensor, "B L"], attention_mask: Int[Tensor, "B L"] | None
    ) -> Float[Tensor, "B outputs"]:
        """Embeddings, of any length."""
        mean = masked_mean(self.embedding(input_ids), _mask(input_ids, attention_mask))
        out: Tensor = self.head(self.dropout(self.norm(mean)))
        return out


@final
class TransformerTower(nn.Module):
    """(input_ids [B, L], attention_mask [B, L]) -> [B, outputs]: a projection of the mean of the
    token states."""

    def __init__(
        self, section: TextTransformer, vocabulary: int, length: int, outputs: int
    ) -> None:
        super().__init__()
        self.embedding = _embedding(vocabulary, section.width)
        self.positions = _embedding(length, section.width)
        self.dropout = nn.Dropout(section.dropout)
        self.layers = nn.ModuleList(EncoderBlock(section) for _ in range(section.layers))
        self.norm = nn.LayerNorm(section.width)
        self.head = nn.Linear(section.width, outputs)

    def forward(
        self, input_ids: Int[Tensor, "B L"], attention_mask: Int[Tensor, "B L"] | None
    ) -> Float[Tensor, "B outputs"]:
        """Embeddings, of any length."""
        mask = _mask(input_ids, attention_mask)
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.dropout(self.embedding(input_ids) + self.positions(places))
        seen = (mask > 0)[:, None, None, :]
        for layer in self.layers:
            x = layer(x, seen)
        out: Tensor = self.head(masked_mean(self.norm(x), mask))
        return out


@final
class EncoderBlock(nn.Module):
    """x + Attention(Norm(x)), then x + FFN(Norm(x))."""

    def __init__(self, section: TextTransformer) -> None:
        super().__init__()
        width = section.width
        self.heads = section.heads
        self.before_attention = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.attended = nn.Linear(width, width)
        self.before_forward = nn.LayerNorm(width)
        self.wide = nn.Linear(width, _WIDE * width)
        self.narrow = nn.Linear(_WIDE * width, width)
        self.dropout = nn.Dropout(section.dropout)

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        """States [B, L, d] of tokens that attend to those `seen` [B, 1, 1, L]."""
        rows, length, width = x.shape
        parts = self.queries_keys_values(self.before_attention(x))
        split = parts.view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        queries, keys, values = split.unbind(0)
        mixed = functional.scaled_dot_product_attention(queries, keys, values, attn_mask=seen)
        x = x + self.dropout(self.attended(mixed.transpose(1, 2).reshape(x.shape)))
        inner = functional.gelu(self.wide(self.before_forward(x)))
        out: Tensor = x + self.dropout(self.narrow(inner))
        return out


def _mask(input_ids: Tensor, given: Tensor | None) -> Tensor:
    """What is no padding: all, if nothing else is given."""
    return torch.ones_like(input_ids) if given is None else given


def masked_mean(states: Float[Tensor, "B L d"], mask: Int[Tensor, "B L"]) -> Float[Tensor, "B d"]:
    """Mean over the tokens that are no padding."""
    weights = mask.to(states.dtype).unsqueeze(2)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp_min(1)


def _embedding(rows: int, width: int) -> nn.Embedding:
    """Rows drawn from N(0, 0.02) (as Radford et al. 2021, section 2.4)."""
    embedding = nn.Embedding(rows, width)
    nn.init.normal_(embedding.weight, std=0.02)
    return embedding


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
