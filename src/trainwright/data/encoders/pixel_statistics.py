"""Channel statistics of the training images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.row_distribution import safe_quantiles
from trainwright.data.base.table import Bytes, ImageInputs, Inputs, Part
from trainwright.data.encoders.decoding_rule import Rule
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows

_MOST_TRIAL_PIXELS = 2**18
"""Of a blank image; on larger ones a score takes too long for a check."""


@final
@dataclass(frozen=True, slots=True)
class Pixels(Encoding):
    """The size of the images, and mean and deviation of each channel (0 to 255) over all pixels of
    the training images. A standard deviation is never 0. `rule` is how image files become such
    images."""

    channels: int
    height: int
    width: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    rule: Rule

    modality: ClassVar[str] = "images"

    profiled_rows: ClassVar[int] = 1000

    def profile(self, part: Part, /) -> dict[str, Json]:
        """Size, and mean and standard deviation of the pixels of each image."""
        images = ImageInputs.of_kind(part.inputs)
        blocks = [one.reshape(len(one), -1).astype(np.float64) for one in images.blocks()]
        return {
            "size": list(images.size),
            "brightness": safe_quantiles(np.concatenate([one.mean(axis=1) for one in blocks])),
            "contrast": safe_quantiles(np.concatenate([one.std(axis=1) for one in blocks])),
        }

    def signature(self, _profile: Mapping[str, Json], /) -> list[InputColumn]:
        """Images of one size."""
        size = f"{self.channels}, {self.height}, {self.width}"
        return [InputColumn("image", f"uint8 [N, {size}]")]

    def read_new(self, rows: NewRows, /) -> ImageInputs:
        """As `read`."""
        return self.read(rows.images())

    def shape_json(self, outputs: int) -> Json:
        """Size and statistics of the channels."""
        return {
            "kind": "images",
            "size": [self.channels, self.height, self.width],
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "outputs": outputs,
        }

    def describe(self, rows: int) -> str:
        """Their number and size."""
        return f"{many(rows, 'image')} of {self.channels} x {self.height} x {self.width}"

    def trial_inputs(self) -> list[Inputs]:
        """A black image, unless it is a large one."""
        size = (self.channels, self.height, self.width)
        if min(size) < 1:
            raise ValueError("features.json names images of no size")
        small = np.prod(size, dtype=np.float64) <= _MOST_TRIAL_PIXELS
        return [ImageInputs.of(np.zeros((1, *size), np.uint8))] if small else []

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
        return ImageInputs.of(pixels)

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            "kind": self.modality,
            "size": [self.channels, self.height, self.width],
            "mean": list(self.mean),
            "deviation": list(self.deviation),
            "decoding": self.rule.to_json(),
        }

    @classmethod
    def from_json(cls, json: Json) -> Pixels:
        """The inverse of `to_json`."""
        channels, height, width = json["size"]
        rule = Rule.from_json(json["decoding"])
        return Pixels(channels, height, width, tuple(json["mean"]), tuple(json["deviation"]), rule)


def fit_pixels(images: ImageInputs, rule: Rule) -> Pixels:
    """Fit on the training images; exact, from the counts of the 256 values."""
    values = np.arange(256, dtype=np.float64)
    channels, height, width = images.size
    counts = np.zeros((channels, 256), dtype=np.int64)
    for block in images.blocks():
        for channel in range(channels):
            counts[channel] += np.bincount(block[:, channel].ravel(), minlength=256)
    shares = counts / counts.sum(axis=1, keepdims=True)
    means = shares @ values
    deviations = np.sqrt((shares * (values - means[:, None]) ** 2).sum(axis=1))
    deviations[deviations == 0] = 1.0
    known = replace(rule, size=(height, width), channels="grey" if channels == 1 else "rgb")
    return Pixels(channels, height, width, tuple(means.tolist()), tuple(deviations.tolist()), known)
