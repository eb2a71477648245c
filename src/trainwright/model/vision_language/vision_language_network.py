"""A decoder that reads the states of an image encoder before its text (LLaVA: Liu et al. 2023,
arXiv:2304.08485, section 4.1). Needs torch."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.vision_language import Projector, VisionLanguage
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Mistake, Problem
from trainwright.model.causal_attention import KeyValueCache
from trainwright.model.gpt.gpt_network import GptNetwork
from trainwright.model.input_shape import CaptionShape, ImageShape, TokenShape
from trainwright.model.model_call import TokenDecoder
from trainwright.model.pretrained.image_classifier import build_image_states
from trainwright.model.resnet.resnet_network import ImageNetwork, build_resnet_states


@final
class VisionLanguageNetwork(nn.Module):
    """(tokens [B, L], pixels [B, C, H, W]) -> logits [B, L, V] of the next token at each position
    of the text; the image tokens before it predict none."""

    def __init__(self, image: nn.Module, projector: ProjectorNetwork, decoder: GptNetwork) -> None:
        super().__init__()
        self.image = image
        self.projector = projector
        self.decoder = decoder
        self.context = decoder.context - projector.grid**2

    def forward(self, tokens: Int[Tensor, "B L"], pixels: Tensor) -> Float[Tensor, "B L V"]:
        """Logits."""
        features = self.decoder.features(tokens, before=self.image_tokens(pixels))
        return functional.linear(features, self.decoder.head_weight)

    def about(self, pixels: Tensor) -> TokenDecoder:
        """See `ImageDescriber`."""
        return _Describer(self, pixels)

    def image_tokens(self, pixels: Tensor) -> Float[Tensor, "B n D"]:
        """Embeddings of the image tokens of images."""
        found: Tensor = self.projector(self.image(pixels))
        return found


@final
class ProjectorNetwork(nn.Module):
    """States [B, F, h, w] of the places of images to embeddings [B, n, D], line by line."""

    def __init__(self, section: Projector, features: int, width: int) -> None:
        super().__init__()
        self.grid = section.grid
        sizes = [features, *[width] * section.layers]
        linear = [nn.Linear(inner, outer) for inner, outer in pairwise(sizes)]
        between = [nn.GELU() for _ in linear]
        self.layers = nn.Sequential(*list(chain(*zip(linear, between, strict=True)))[:-1])

    def forward(self, states: Float[Tensor, "B F h w"]) -> Float[Tensor, "B n D"]:
        """Embeddings."""
        areas = average_areas(states, self.grid).flatten(2).transpose(1, 2)
        found: Tensor = self.layers(areas)
        return found


def average_areas(states: Float[Tensor, "B F h w"], grid: int) -> Float[Tensor, "B F g g"]:
    """Means over equal areas, of which those at a border count a place by its share. The states
    themselves where there are as many."""
    if tuple(states.shape[2:]) == (grid, grid):
        return states
    down, right = (_shares(places, grid, states) for places in states.shape[2:])
    return torch.einsum("ih,bfhw,jw->bfij", down, states, right)


def _shares(places: int, areas: int, like: Tensor) -> Float[Tensor, "areas places"]:
    """The share of each place in the mean of each area."""
    edges = torch.arange(areas + 1, device=like.device, dtype=torch.float64) * places / areas
    at = torch.arange(places, device=like.device, dtype=torch.float64)
    covered = torch.minimum(edges[1:, None], at + 1) - torch.maximum(edges[:-1, None], at)
    return (covered.clamp(min=0) * areas / places).to(like.dtype)


@final
class _Describer:
    """A `TokenDecoder` that writes of one image: the decoder of a network with the tokens of the
    image before its text."""

    def __init__(self, network: VisionLanguageNetwork, pixels: Tensor) -> None:
        self.context = network.context
        self._decoder = network.decoder
        with torch.no_grad():
            self._before = network.image_tokens(pixels)

    def extend(self, tokens: Int[Tensor, "1 L"], cache: KeyValueCache) -> Float[Tensor, "1 V"]:
        """See `TokenDecoder`."""
        return self._decoder.extend(tokens, cache, self._before)


def build_vision_language(
    section: VisionLanguage, shape: CaptionShape, *, is_empty: bool
) -> VisionLanguageNetwork:
    """Network with new weights, but those of a base of images unless `is_empty`; the decoder has
    new ones, and no adapter.

    Raises:
        Mistake: the encoder has fewer places than image tokens are asked for, or a base cannot be
            used.
    """
    images = ImageShape(shape.size, shape.mean, shape.deviation, 1)
    if isinstance(section.image, Pretrained):
        is_new = is_empty or section.image.weights == "none"
        image = build_image_states(settled(section.image.base), images, is_new=is_new)
    else:
        image = build_resnet_states(section.image, images)
    features = _features(image, section.projector, shape)
    projector = ProjectorNetwork(section.projector, features, section.decoder.width)
    decoder = GptNetwork(section.decoder, TokenShape(shape.outputs))
    return VisionLanguageNetwork(image, projector, decoder)


def _features(image: nn.Module, projector: Projector, shape: CaptionShape) -> int:
    """Features of a state, found by looking at a black image."""
    is_training = image.training
    image.eval()
    with torch.no_grad():
        states = image(torch.zeros(1, *shape.size, dtype=torch.uint8))
    image.train(is_training)
    _, features, height, width = states.shape
    if min(height, width) < projector.grid:
        raise Mistake(
            Problem(
                "the image encoder has fewer places than the projector reads",
                path="model.projector.grid",
                found=f"{projector.grid} x {projector.grid} of {height} x {width} places",
                expected=f"at most {min(height, width)}",
                fix=f"change it to {min(height, width)}",
            )
        )
    return int(features)


def lay_out_states(network: nn.Module, memory_format: torch.memory_format) -> None:
    """Set the memory layout of images and convolutions; a base keeps its own."""
    assert isinstance(network, VisionLanguageNetwork)
    if isinstance(network.image, ImageNetwork):
        network.image.lay_out(memory_format)
