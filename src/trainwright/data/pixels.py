"""What is fitted on the pixels of the training images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.data.table import Bytes, ImageInputs


@final
@dataclass(frozen=True, slots=True)
class Pixels:
    """The size of the images, and mean and deviation of each channel (0 to 255) over all pixels of
    the training images. A deviation is never 0."""

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def read(self, images: Bytes) -> ImageInputs:
        """New images, uint8 [N, H, W] or [N, C, H, W].

        Raises:
            DataMistake: they are of another size or type than the training images.
        """
        pixels = images[:, None] if images.ndim == 3 else images
        expected = (self.channels, self.height, self.width)
        if pixels.dtype != np.uint8 or pixels.shape[1:] != expected:
            raise DataMistake(
                Problem(
                    "the images are not like those the model was trained on",
                    found=f"{pixels.dtype} {list(pixels.shape)}",
                    expected=f"uint8 [N, {', '.join(map(str, expected))}]",
                    fix="scale the images to this size",
                )
            )
        return ImageInputs(pixels)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": "images",
            "size": [self.channels, self.height, self.width],
            "mean": list(self.mean),
            "deviation": list(self.deviation),
        }

    @staticmethod
    def from_json(json: Json) -> Pixels:
        """The inverse of `to_json`."""
        channels, height, width = json["size"]
        return Pixels(channels, height, width, tuple(json["mean"]), tuple(json["deviation"]))


def fit_pixels(images: Bytes) -> Pixels:
    """Fit on the training images, uint8 [N, C, H, W]; exact, from the counts of the 256 values."""
    values = np.arange(256, dtype=np.float64)
    means, deviations = [], []
    for channel in range(images.shape[1]):
        counts = np.bincount(images[:, channel].ravel(), minlength=256) / images[:, channel].size
        mean = float(counts @ values)
        means.append(mean)
        deviations.append(float(np.sqrt(counts @ (values - mean) ** 2)) or 1.0)
    _, channels, height, width = images.shape
    return Pixels(channels, height, width, tuple(means), tuple(deviations))
