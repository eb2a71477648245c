"""Batched RandAugment and colour transforms, with per-image operations. Needs torch.

Images are uint8 [B, C, H, W]; numbers are float64 [B] on the host. Sums run over whole numbers, and
everything else is one rounded operation for each pixel, so that an image comes out the same to the
bit whatever the others of its batch are.

RandAugment is that of Cubuk et al. 2019, arXiv:1909.13719, section 3: of K = 14 operations N are
drawn for each image and applied one after the other with the strength M. The ranges at full
strength (M = 10 here) are those of AutoAugment (arXiv:1805.09501, table 6): 30 degrees, a shear of
0.3, a translation by 150 / 331 of the side, factors from 0.1 to 1.9, 4 bits, and every value above
the threshold inverted. Uncovered pixels are black, geometric operations take the nearest pixel, and
the sign of a change is drawn too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from trainwright.contract.sections.data.images import RandAugment
from trainwright.data.base.counter_rng import Positions, integers, uniform
from trainwright.data.base.inputs import Floats
from trainwright.data.loading.device_copy import sent

_WHITE = 255
_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
"""From RGB to luma and two axes of colour (NTSC 1953), which a change of hue turns."""

Operation = Callable[[Tensor, Floats], Tensor]
"""Images and a signed strength from -1 to 1 for each of them."""

_DEGREES = 30.0
_SHEAR = 0.3
_MOVE = 150 / 331
_FACTOR = 0.9
_BITS = 4


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


def rand_augmented(
    pixels: Tensor, section: RandAugment, seed: int, epoch: int, rows: Positions
) -> Tensor:
    """Apply the operations drawn for each row."""
    for place in range(section.operations):
        codes = integers(len(OPERATIONS), seed, f"operation {place}", epoch, rows)
        signs = np.where(uniform(seed, f"sign {place}", epoch, rows) < 0.5, -1.0, 1.0)
        strength = signs * section.magnitude / 10
        changed = pixels.clone()
        for code in np.unique(codes):
            chosen = np.flatnonzero(codes == code)
            index = sent(chosen, pixels.device)
            changed[index] = OPERATIONS[code](pixels[index], strength[chosen])
        pixels = changed
    return pixels


def identity(pixels: Tensor, _strength: Floats) -> Tensor:
    """Nothing."""
    return pixels


def auto_contrast(pixels: Tensor, _strength: Floats) -> Tensor:
    """Rescale each channel to the range 0 to 255."""
    flat = pixels.flatten(2).int()
    low, high = flat.amin(dim=2, keepdim=True), flat.amax(dim=2, keepdim=True)
    span = (high - low).clamp_min(1)
    rescaled = ((flat - low) * 510 + span) // (2 * span)
    kept = torch.where(high > low, rescaled, flat)
    return kept.to(torch.uint8).view_as(pixels)


def equalize(pixels: Tensor, _strength: Floats) -> Tensor:
    """Each channel mapped so that its values are about equally frequent, as Pillow does it."""
    flat = pixels.flatten(2).long()
    counts = torch.zeros((*flat.shape[:2], 256), dtype=torch.int64, device=pixels.device)
    counts.scatter_add_(2, flat, torch.ones_like(flat))
    values = torch.arange(256, device=pixels.device)
    last = torch.where(counts > 0, values, 0).amax(dim=2, keepdim=True)
    step = (flat.shape[2] - counts.gather(2, last)) // 255
    before = counts.cumsum(dim=2) - counts
    table = ((step // 2 + before) // step.clamp_min(1)).clamp(0, 255)
    table = torch.where(step > 0, table, values)
    return table.gather(2, flat).to(torch.uint8).view_as(pixels)


def rotate(pixels: Tensor, strength: Floats) -> Tensor:
    """Rotate around the centre."""
    angles = np.radians(strength * _DEGREES)
    cosine = np.array([math.cos(one) for one in angles])
    sine = np.array([math.sin(one) for one in angles])
    return mapped(pixels, np.stack([cosine, sine, -sine, cosine], axis=1))


def solarize(pixels: Tensor, strength: Floats) -> Tensor:
    """Invert values from a threshold on."""
    limit = per_row(256.0 * (1 - np.abs(strength)), pixels.device)
    return torch.where(pixels.float() >= limit, 255 - pixels, pixels)


def color(pixels: Tensor, strength: Floats) -> Tensor:
    """More or less saturated."""
    return saturation(pixels, 1 + _FACTOR * strength)


def posterize(pixels: Tensor, strength: Floats) -> Tensor:
    """Keep the highest bits of each value."""
    dropped = np.round(_BITS * np.abs(strength)).astype(np.int64)
    step = sent((2**dropped).astype(np.int32), pixels.device)[:, None, None, None]
    return (pixels.int() // step * step).to(torch.uint8)


def change_contrast(pixels: Tensor, strength: Floats) -> Tensor:
    """More or less contrast."""
    return contrast(pixels, 1 + _FACTOR * strength)


def change_brightness(pixels: Tensor, strength: Floats) -> Tensor:
    """Brighter or darker."""
    return brightness(pixels, 1 + _FACTOR * strength)


def sharpness(pixels: Tensor, strength: Floats) -> Tensor:
    """Away from or towards the image smoothed by (1 1 1, 1 5 1, 1 1 1) / 13; the border stays."""
    height, width = pixels.shape[2:]
    if min(height, width) < 3:
        return pixels
    whole = pixels.int()
    total = 4 * whole[:, :, 1:-1, 1:-1]
    for down in range(3):
        for right in range(3):
            total = total + whole[:, :, down : down + height - 2, right : right + width - 2]
    smooth = pixels.clone()
    smooth[:, :, 1:-1, 1:-1] = ((total * 2 + 13) // 26).to(torch.uint8)
    return blended(smooth, pixels, 1 + _FACTOR * strength)


def shear_x(pixels: Tensor, strength: Floats) -> Tensor:
    """Horizontal shear."""
    ones, zeros = np.ones_like(strength), np.zeros_like(strength)
    return mapped(pixels, np.stack([ones, _SHEAR * strength, zeros, ones], axis=1))


def shear_y(pixels: Tensor, strength: Floats) -> Tensor:
    """Vertical shear."""
    ones, zeros = np.ones_like(strength), np.zeros_like(strength)
    return mapped(pixels, np.stack([ones, zeros, _SHEAR * strength, ones], axis=1))


def translate_x(pixels: Tensor, strength: Floats) -> Tensor:
    """Horizontal translation."""
    return _translated(pixels, right=strength * _MOVE * pixels.shape[3])


def translate_y(pixels: Tensor, strength: Floats) -> Tensor:
    """Vertical translation."""
    return _translated(pixels, down=strength * _MOVE * pixels.shape[2])


OPERATIONS: tuple[Operation, ...] = (
    identity,
    auto_contrast,
    equalize,
    rotate,
    solarize,
    color,
    posterize,
    change_contrast,
    change_brightness,
    sharpness,
    shear_x,
    shear_y,
    translate_x,
    translate_y,
)
"""All of them, in the order of the paper."""


def _translated(pixels: Tensor, right: Floats | float = 0.0, down: Floats | float = 0.0) -> Tensor:
    count = len(pixels)
    same = np.tile([1.0, 0.0, 0.0, 1.0], (count, 1))
    moves = np.stack([np.broadcast_to(right, count), np.broadcast_to(down, count)], axis=1)
    return mapped(pixels, same, np.round(moves))


def mapped(pixels: Tensor, matrix: Floats, move: Floats | None = None) -> Tensor:
    """Each pixel at (x, y) from the middle taken from the nearest place to (a x + b y, c x + d y)
    less a move, for a `matrix` [B, 4] of a, b, c, d and moves [B, 2] of x and y."""
    device = pixels.device
    height, width = pixels.shape[2:]
    a, b, c, d = (per_row(one, device)[:, 0] for one in matrix.T)
    moves = np.zeros((len(pixels), 2)) if move is None else move
    right, down = (per_row(one, device)[:, 0] for one in moves.T)
    y = (torch.arange(height, device=device) - (height - 1) / 2)[None, :, None]
    x = (torch.arange(width, device=device) - (width - 1) / 2)[None, None, :]
    from_x = ((a * x + b * y) - right + (width - 1) / 2 + 0.5).floor().long()
    from_y = ((c * x + d * y) - down + (height - 1) / 2 + 0.5).floor().long()
    inside = (from_x >= 0) & (from_x < width) & (from_y >= 0) & (from_y < height)
    places = (from_y.clamp(0, height - 1) * width + from_x.clamp(0, width - 1)).flatten(1)
    index = places[:, None].expand(-1, pixels.shape[1], -1)
    taken = pixels.flatten(2).gather(2, index).view_as(pixels)
    return torch.where(inside[:, None], taken, 0)
