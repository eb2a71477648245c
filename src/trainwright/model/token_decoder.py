"""Protocols of networks that continue a text, or write of images."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from trainwright.model.attention.key_value_cache import KeyValueCache


@runtime_checkable
class TokenDecoder(Protocol):
    """Network that predicts the token after those it has read, at most `context` of them."""

    context: int

    def extend(self, tokens: Int[Tensor, "B L"], cache: KeyValueCache) -> Float[Tensor, "B V"]:
        """Logits of the token after the last of `tokens`, which follow those of the cache; the
        cache grows by them."""
        ...


@runtime_checkable
class ImageDescriber(Protocol):
    """Network that writes of images."""

    def about(self, pixels: Tensor) -> TokenDecoder:
        """What writes of an image [1, C, H, W]."""
        ...
