"""Pixel storage of training images: on the device or memory-mapped. Needs torch."""

from __future__ import annotations

import math
from typing import Protocol, final

import torch
from torch import Tensor

from trainwright.data.base.counter_rng import Positions
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.loading.device_copy import sent

_MOST_RESIDENT_BYTES = 4 * 2**30


class PixelRows(Protocol):
    """N images with random access."""

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        ...

    @property
    def device(self) -> torch.device:
        """Where `take` puts them."""
        ...

    def __len__(self) -> int: ...

    def take(self, rows: Positions) -> Tensor:
        """The images, uint8 [B, C, H, W], on the device."""
        ...


@final
class ResidentPixels:
    """All images on the device."""

    def __init__(self, pixels: Tensor) -> None:
        assert pixels.dtype == torch.uint8
        assert pixels.ndim == 4
        self._pixels = pixels
        channels, height, width = pixels.shape[1:]
        self.size = (channels, height, width)
        self.device = pixels.device

    def __len__(self) -> int:
        return len(self._pixels)

    def take(self, rows: Positions) -> Tensor:
        """The images."""
        return self._pixels.index_select(0, sent(rows, self.device))


@final
class MappedPixels:
    """Memory-mapped images, copied to the device on access."""

    def __init__(self, images: ImageInputs, device: torch.device) -> None:
        self._images = images
        self.size = images.size
        self.device = device

    def __len__(self) -> int:
        return len(self._images)

    def take(self, rows: Positions) -> Tensor:
        """The images."""
        return sent(self._images.take(rows).copied(), self.device)


def build_pixels(
    images: ImageInputs, device: torch.device, most_bytes: int = _MOST_RESIDENT_BYTES
) -> PixelRows:
    """On the device up to `most_bytes`, otherwise memory-mapped."""
    if len(images) * math.prod(images.size) <= most_bytes:
        return ResidentPixels(torch.from_numpy(images.copied()).to(device))
    return MappedPixels(images, device)
