"""Stateless image augmentation: a function of (seed, epoch, image), independent of batches, resumes
and the number of devices.

Parameters are drawn on the host; pixels are transformed on the device.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import numpy as np
import torch
from torch import Tensor

from trainwright.contract.sections.data.images import Augment, ColorJitter
from trainwright.data.base.counter_rng import Positions, integers, uniform
from trainwright.data.base.inputs import Floats
from trainwright.data.loading import randaugment
from trainwright.data.loading.batch import Batch
from trainwright.data.loading.device_copy import sent
from trainwright.data.loading.pixel_rows import PixelRows
from trainwright.data.loading.randaugment import rand_augmented

_SHAPE = (0.3, 1 / 0.3)


@final
class ImageDataset:
    """Training images and labels, augmented in every epoch.

    `take` gives `pixels` uint8 [B, C, H, W] and `target` int64 [B]; with mixup or cutmix also
    `other_target`, the label of the other image, and `share` [B], that of the first, where mixup
    makes the pixels float32. The other image is a random training image with its own augmentation
    of that epoch. `more` are tensors beside the label, [N, ...], of images that are not blended.
    """

    def __init__(
        self,
        pixels: PixelRows,
        labels: Tensor,
        section: Augment,
        seed: int,
        more: Mapping[str, Tensor] | None = None,
    ) -> None:
        self._pixels = pixels
        self._labels = labels
        self._more = more or {}
        self._section = section
        self._seed = seed
        self.rows = len(pixels)
        self.row_bytes = math.prod(pixels.size) * (4 if section.mixup else 1)

    def take(self, epoch: int, rows: Positions) -> Batch:
        """The images of an epoch."""
        device = self._pixels.device
        at = sent(rows, device)
        labels = self._labels.index_select(0, at)
        pixels = self._changed(epoch, rows)
        if not (self._section.mixup or self._section.cutmix):
            more = {name: one.index_select(0, at) for name, one in self._more.items()}
            return Batch({"pixels": pixels, "target": labels, **more}, rows=rows)
        others = integers(self.rows, self._seed, "other", epoch, rows)
        drawn = self._changed(epoch, others)
        pixels, shares = self._blended(epoch, rows, pixels, drawn)
        other = self._labels.index_select(0, sent(others, device))
        named = {"pixels": pixels, "target": labels, "other_target": other, "share": shares}
        return Batch(named, rows=rows)

    def _changed(self, epoch: int, rows: Positions) -> Tensor:
        section, seed = self._section, self._seed
        pixels = self._pixels.take(rows)
        if section.flip:
            chosen = sent(uniform(seed, "flip", epoch, rows) < 0.5, pixels.device)
            pixels = torch.where(chosen[:, None, None, None], pixels.flip(3), pixels)
        if section.crop:
            span = 2 * section.crop + 1
            down = integers(span, seed, "crop down", epoch, rows)
            right = integers(span, seed, "crop right", epoch, rows)
            pixels = moved(pixels, down, right, section.crop)
        if section.randaugment.operations:
            pixels = rand_augmented(pixels, section.randaugment, seed, epoch, rows)
        pixels = jittered(pixels, section.colors, seed, epoch, rows)
        if section.cutout:
            size = (section.cutout, section.cutout)
            heights, widths = (np.full(len(rows), side) for side in size)
            down, right = self._sides("cutout", epoch, rows, heights, widths)
            pixels = pixels.masked_fill(_box(down, right, pixels.device), 0)
        return self._erased(epoch, rows, pixels) if section.erase.probability else pixels

    def _erased(self, epoch: int, rows: Positions, pixels: Tensor) -> Tensor:
        """A box of area s H W and shape r = height / width, cut off at the border."""
        section, seed = self._section.erase, self._seed
        _, height, width = self._pixels.size
        chosen = np.flatnonzero(uniform(seed, "erase", epoch, rows) < section.probability)
        rows = rows[chosen]
        drawn = uniform(seed, "erase area", epoch, rows)
        area = section.smallest + (section.largest - section.smallest) * drawn
        low, high = math.log(_SHAPE[0]), math.log(_SHAPE[1])
        turn = low + (high - low) * uniform(seed, "erase shape", epoch, rows)
        # Not numpy's exp: its last bit may depend on the place in the array.
        shape = np.array([math.exp(one) for one in turn])
        whole = area * height * width
        heights = np.round(np.sqrt(whole * shape)).astype(np.int64)
        widths = np.round(np.sqrt(whole / shape)).astype(np.int64)
        down, right = self._sides("erase", epoch, rows, heights, widths)
        size = self._pixels.size
        box = np.broadcast_to(down[:, None, :, None] & right[:, None, None, :], (len(rows), *size))
        image, place = np.nonzero(box.reshape(len(rows), math.prod(size)))
        # Bytes are drawn only where they are seen: a hash each.
        drawn_at = rows[image] * math.prod(size) + place
        noise = integers(256, seed, "erase bytes", epoch, drawn_at).astype(np.uint8)
        at = sent(chosen[image] * math.prod(size) + place, pixels.device)
        return pixels.flatten().scatter(0, at, sent(noise, pixels.device)).view_as(pixels)

    def _blended(
        self, epoch: int, rows: Positions, pixels: Tensor, others: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The images with the others blended or pasted in, and the share of the first [B]."""
        section, device = self._section, pixels.device
        shares = np.ones(len(rows))
        both = bool(section.mixup and section.cutmix)
        pastes = (
            uniform(self._seed, "mix or cut", epoch, rows) < 0.5
            if both
            else np.full(len(rows), bool(section.cutmix))
        )
        chance = uniform(self._seed, "share", epoch, rows)
        if section.cutmix:
            side = np.sqrt(1 - beta_quantile(section.cutmix, chance))
            height, width = pixels.shape[2:]
            heights = np.where(pastes, np.round(side * height), 0).astype(np.int64)
            widths = np.where(pastes, np.round(side * width), 0).astype(np.int64)
            down, right = self._sides("cutmix", epoch, rows, heights, widths)
            pixels = torch.where(_box(down, right, device), others, pixels)
            shares -= down.sum(axis=1) * right.sum(axis=1) / (height * width)
        if section.mixup:
            blend = np.where(pastes, 1.0, beta_quantile(section.mixup, chance))
            shares *= blend
            kept = sent(blend.astype(np.float32), device)[:, None, None, None]
            pixels = torch.lerp(others.float(), pixels.float(), kept)
        return pixels, sent(shares.astype(np.float32), device)

    def _sides(
        self, purpose: str, epoch: int, rows: Positions, heights: Positions, widths: Positions
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rectangles around random places, cut off at the border: the lines and the columns that
        they cover, bool [B, H] and [B, W]."""
        _, height, width = self._pixels.size
        middle_y = integers(height, self._seed, f"{purpose} y", epoch, rows)
        middle_x = integers(width, self._seed, f"{purpose} x", epoch, rows)
        down = _between(middle_y - heights // 2, heights, height)
        return down, _between(middle_x - widths // 2, widths, width)


def moved(pixels: Tensor, down: Positions, right: Positions, most: int) -> Tensor:
    """Random crop of images [B, C, H, W] padded by `most` black pixels, at (`down`, `right`) from 0
    to 2 `most`; `most` is the identity."""
    height, width = pixels.shape[2:]
    framed = torch.nn.functional.pad(pixels, (most, most, most, most))
    places = framed.unfold(2, height, 1).unfold(3, width, 1)
    index = torch.arange(len(pixels), device=pixels.device)
    # [B, C, H, W]: one view of the framed image each.
    return places[index, :, sent(down, pixels.device), sent(right, pixels.device)]


def jittered(
    pixels: Tensor, section: ColorJitter, seed: int, epoch: int, rows: Positions
) -> Tensor:
    """Colour jitter: brightness, contrast, saturation and hue."""

    def drawn(name: str, width: float) -> Floats:
        return width * (2 * uniform(seed, name, epoch, rows) - 1)

    if section.brightness:
        pixels = randaugment.brightness(pixels, 1 + drawn("brightness", section.brightness))
    if section.contrast:
        pixels = randaugment.contrast(pixels, 1 + drawn("contrast", section.contrast))
    if section.saturation:
        pixels = randaugment.saturation(pixels, 1 + drawn("saturation", section.saturation))
    if section.hue:
        pixels = randaugment.hue(pixels, drawn("hue", section.hue))
    return pixels


def beta_quantile(alpha: float, chance: Floats) -> Floats:
    """Quantile function of Beta(alpha, alpha), for inverse transform sampling."""
    from scipy.special import betaincinv

    return np.asarray(betaincinv(alpha, alpha, chance), np.float64)


def _box(down: np.ndarray, right: np.ndarray, device: torch.device) -> Tensor:
    """The places in both: bool [B, 1, H, W]."""
    return (sent(down, device)[:, :, None] & sent(right, device)[:, None, :])[:, None]


def _between(first: Positions, count: Positions, size: int) -> np.ndarray:
    """Whether each of `size` places lies in [first, first + count): bool [B, size]."""
    places = np.arange(size)
    return (places >= first[:, None]) & (places < (first + count)[:, None])
