"""Batched colour transforms with per-image factors. Needs torch.

Images are uint8 [B, C, H, W]; numbers are float64 [B] on the host. Sums run over whole numbers, and
everything else is one rounded operation for each pixel, so that an image comes out the same to the
bit whatever stands beside it.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from trainwright.data.base.table import Floats
from trainwright.data.loading.host_to_device import sent

_WHITE = 255
_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
"""From RGB to luma and two axes of colour (NTSC 1953), which a change of hue turns."""


def luma(pixels: Tensor) -> Tensor:
    """Grey of ITU-R BT.601 in whole numbers, int32 [B, 1, H, W]."""
    if pixels.shape[1] == 1:
        return pixels.int()
    red, green, blue = pixels.int().unbind(1)
    return ((299 * red + 587 * green + 114 * blue + 500) // 1000)[:, None]


def blended(base: Tensor, pixels: Tensor, factor: Floats) -> Tensor:
    """base + factor (pixels - base), rounded: 1 is the identity, 0 gives the base."""
    weight = per_row(factor, pixels.device)
    change = (pixels.float() - base.float()) * weight
    return as_bytes(base.float() + change)


def brightness(pixels: Tensor, factor: Floats) -> Tensor:
    """Every pixel times a factor."""
    return blended(torch.zeros_like(pixels), pixels, factor)


def contrast(pixels: Tensor, factor: Floats) -> Tensor:
    """Away from (factor above 1) or towards the mean grey of the image."""
    grey = luma(pixels)
    places = grey.shape[2] * grey.shape[3]
    mean = (grey.sum(dim=(1, 2, 3), keepdim=True) + places // 2) // places
    return blended(mean.expand_as(pixels), pixels, factor)


def saturation(pixels: Tensor, factor: Floats) -> Tensor:
    """Away from (factor above 1) or towards the grey of each pixel."""
    return blended(luma(pixels).expand_as(pixels), pixels, factor)


def hue(pixels: Tensor, turn: Floats) -> Tensor:
    """Rotate the hue by `turn` of a full circle; grey images are unchanged."""
    if pixels.shape[1] != 3:
        return pixels
    back = np.linalg.inv(_YIQ)
    matrices = np.stack([back @ _rotation(2 * math.pi * float(one)) @ _YIQ for one in turn])
    rows = sent(matrices.astype(np.float32), pixels.device)[..., None, None]
    red, green, blue = pixels.float().unbind(1)
    mixed = [
        (rows[:, out, 0] * red + rows[:, out, 1] * green) + rows[:, out, 2] * blue
        for out in range(3)
    ]
    return as_bytes(torch.stack(mixed, dim=1))


def as_bytes(values: Tensor) -> Tensor:
    """Round and clamp to 0 to 255."""
    return values.round().clamp(0, _WHITE).to(torch.uint8)


def per_row(values: Floats, device: torch.device) -> Tensor:
    """Per-image factors, float32 [B, 1, 1, 1]."""
    return sent(values.astype(np.float32), device)[:, None, None, None]


def _rotation(angle: float) -> Floats:
    cosine, sine = math.cos(angle), math.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, cosine, -sine], [0.0, sine, cosine]])
