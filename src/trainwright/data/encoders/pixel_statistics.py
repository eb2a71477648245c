"""Statistics of the training images' pixels, and the settings that determine the pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np

from trainwright.contract.sections.data.images import Decoding
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import Bytes, Floats, ImageInputs, Inputs, Part, TableInputs
from trainwright.data.encoders.encoding import Encoding, InputColumn, NewRows

_MOST_TRIAL_PIXELS = 2**18
"""Of a blank image; on larger ones a score takes too long for a check."""

_BINS = 16

ALL_WIDE, OPEN_WIDE = (0, 65_535), (0, 0)
"""All values of 16 bits, and the range of a rule for which it is yet to be found."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """The part of the contract's section that decides the pixels, as fitted features keep it.
    `size` is height and width, (0, 0) for images that are of one size already; `wide` the least and
    largest value that pixels of 16 bits have in the training files."""

    size: tuple[int, int]
    channels: Literal["rgb", "grey"]
    fit: Literal["stretch", "crop", "pad"]
    filter: Literal["box", "bilinear", "bicubic", "lanczos", "nearest"]
    most_pixels: int
    wide: tuple[int, int] = ALL_WIDE

    @staticmethod
    def of(section: Decoding) -> Rule:
        """The rule that a contract writes."""
        size = (0, 0) if isinstance(section.size, str) else section.size
        how = (section.channels, section.fit, section.filter, section.most_pixels)
        return Rule(size, *how, wide=OPEN_WIDE)

    def sized(self, height: int, width: int) -> Rule:
        """The same for a size that is known."""
        return replace(self, size=(height, width))

    def to_json(self) -> Json:
        """What `from_json` reads."""
        json = {**asdict(self), "size": list(self.size), "wide": list(self.wide)}
        if self.wide == ALL_WIDE:
            # Omitted, so that existing data versions stay valid.
            del json["wide"]
        return json

    @staticmethod
    def from_json(json: Json) -> Rule:
        """The inverse of `to_json`."""
        height, width = json["size"]
        section = Decoding.model_validate(
            {
                "channels": json["channels"],
                "fit": json["fit"],
                "filter": json["filter"],
                "most_pixels": json["most_pixels"],
            }
        )
        low, high = json.get("wide", ALL_WIDE)
        return replace(Rule.of(section), size=(int(height), int(width)), wide=(int(low), int(high)))


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
        low, high = self.rule.wide
        wide = f", 16 bits from {low:,} to {high:,}" * (self.rule.wide not in (ALL_WIDE, OPEN_WIDE))
        return f"{many(rows, 'image')} of {self.channels} x {self.height} x {self.width}{wide}"

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
