"""Colour statistics of images, as columns of numbers: what is known of an image without its
shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.table import Floats, ImageInputs, Inputs, Part, TableInputs
from trainwright.data.encoders.encoding import Encoding, NewRows
from trainwright.data.encoders.pixel_statistics import Pixels

_BINS = 16


@final
@dataclass(frozen=True, slots=True)
class ColourStatistics(Encoding):
    """Of each channel the mean, the standard deviation and the shares of its pixels in 16 bins of
    equal width, standardised by `centre` and `spread` of the training images."""

    pixels: Pixels
    centre: tuple[float, ...]
    spread: tuple[float, ...]

    modality: ClassVar[str] = "images"

    def encode(self, images: ImageInputs) -> TableInputs:
        """The statistics of images, float32 [N, F]."""
        numbers = (measure_colours(images) - np.array(self.centre)) / np.array(self.spread)
        return TableInputs(numbers.astype(np.float32), np.empty((len(images), 0), dtype=np.int64))

    def read_new(self, rows: NewRows, /) -> TableInputs:
        """See `Encoding`."""
        return self.encode(self.pixels.read_new(rows))

    def inputs_of(self, part: Part) -> Iterator[Inputs]:
        """A part of images."""
        yield self.encode(ImageInputs.of_kind(part.inputs))

    def trial_inputs(self) -> list[Inputs]:
        """As those of its images."""
        return [self.encode(ImageInputs.of_kind(one)) for one in self.pixels.trial_inputs()]

    def shape_json(self, outputs: int) -> Json:
        """Columns of numbers."""
        numeric = len(self.centre)
        return {"kind": "table", "numeric": numeric, "cardinalities": [], "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number."""
        return f"colours of {many(rows, 'image')}"

    def to_json(self) -> Json:
        """See `Encoding`."""
        return {
            "kind": "colours",
            "pixels": self.pixels.to_json(),
            "centre": list(self.centre),
            "spread": list(self.spread),
        }

    @classmethod
    def from_json(cls, json: Json) -> ColourStatistics:
        """The inverse of `to_json`."""
        pixels = Pixels.from_json(json["pixels"])
        centre, spread = (tuple(map(float, json[name])) for name in ("centre", "spread"))
        if {len(centre), len(spread)} != {pixels.channels * (2 + _BINS)} or not all(spread):
            raise ValueError("statistics of other images")
        return ColourStatistics(pixels, centre, spread)


def fit_colours(pixels: Pixels, images: ImageInputs) -> ColourStatistics:
    """Fit on training images."""
    numbers = measure_colours(images)
    spread = numbers.std(axis=0)
    spread[spread == 0] = 1.0
    return ColourStatistics(pixels, tuple(numbers.mean(axis=0).tolist()), tuple(spread.tolist()))


def measure_colours(images: ImageInputs) -> Floats:
    """Mean, standard deviation and histogram of each channel in [0, 1], float64 [N, C (2 + 16)]."""
    channels = images.size[0]
    found = []
    for block in images.blocks():
        flat = block.reshape(len(block) * channels, -1)
        shares = flat / np.float32(255)
        places = np.arange(len(flat))[:, None] * _BINS + flat // (256 // _BINS)
        counts = np.bincount(places.ravel(), minlength=len(flat) * _BINS)
        rows = (shares.mean(axis=1)[:, None], shares.std(axis=1)[:, None])
        histogram = counts.reshape(len(flat), _BINS) / flat.shape[1]
        found.append(np.hstack([*rows, histogram]).reshape(len(block), -1))
    return np.concatenate(found) if found else np.zeros((0, channels * (2 + _BINS)))
