"""Quality checks of images. Unreadable images are reported when the images are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.core.formatting import many
from trainwright.data.base.inputs import ImageInputs, PartName
from trainwright.data.base.messages import quoted
from trainwright.data.images.decode import SUFFIXES
from trainwright.data.images.prepare_images import LABEL
from trainwright.data.images.raw_images import RawImages
from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.finding import Finding, Severity, row_numbers_of
from trainwright.data.split.random_split import PARTS
from trainwright.data.types import Prepared

_BLANK = 1.0
_SMALLER = 4
_SHAPE = 2.0
_PIXELS = "pixels"


def examine_images(raw: RawImages) -> ExaminedData:
    """Label and hash of each image: the training files, then the separate parts."""
    frames, parts = [], []
    for code, part in _parts(raw):
        images, labels = raw.images[part], raw.labels[part]
        names = [raw.names[label] for label in labels.tolist()]
        hashes = [one.hex() for one in images.hashes()]
        frames.append(pl.DataFrame({LABEL: names, _PIXELS: hashes}))
        parts.append(np.full(len(labels), code))
    data = examine(pl.concat(frames), LABEL)
    # A hash is not an identifier here: equal hashes are one image. Nor is it a category, which two
    # images could share by chance.
    looks = tuple(
        replace(look, reason="", kind="text" if look.name == _PIXELS else "categorical")
        for look in data.looks
    )
    return replace(data, looks=looks, task="classes", parts=np.concatenate(parts))


def blank_images(raw: RawImages) -> list[Finding]:
    """Decoded images whose pixels have a standard deviation below 1 of 255."""
    places, images = raw.decoded()
    found = places[np.concatenate([_blank(one) for one in images])]
    if not len(found):
        return []
    text = many(len(found), "blank image")
    fix = "remove them from the files"
    return [Finding("blank_image", "warning", text, len(found), tuple(found.tolist()), fix=fix)]


def file_faults(raw: RawImages) -> list[Finding]:
    """Image file faults: unreadable, wrong extension, far smaller than the target size, or of
    another aspect ratio."""
    found: list[Finding] = []
    if count := sum(one.count for one in raw.left_out.values()):
        names = [name for one in raw.left_out.values() for name in one.names]
        text = f"{many(count, 'unreadable image')} excluded: {quoted(names)}"
        fix = "copy the files again, or remove them"
        found.append(Finding("corrupt_image", "warning", text, count, fix=fix))
    if not raw.records:
        return found
    frame = pl.concat([raw.records[part] for _, part in _parts(raw)])
    suffix = pl.col("name").str.extract(r"(\.[A-Za-z]+)$").str.to_lowercase()
    told = suffix.replace_strict(SUFFIXES, default=None, return_dtype=pl.String)
    written = pl.col("format").replace({"MPO": "JPEG"})
    other = frame.select((told != written).fill_null(False).alias("x"))["x"]
    found += _of_rows(
        "mislabelled_extension",
        other,
        "with the wrong file extension, read by content",
        "rename them: other programs rely on the extension",
        "info",
    )
    height, width = raw.rule.size
    area = pl.col("height") * pl.col("width")
    shape = (pl.col("height") * width) / (pl.col("width") * height)
    elongated = (shape > _SHAPE) | (shape < 1 / _SHAPE)
    small = area * _SMALLER < height * width
    fix = "inspect them: thumbnails and bad crops add noise"
    text = f"of less than a quarter of {height} x {width} pixels, or of another aspect ratio"
    odd = frame.select((small | (elongated & (raw.rule.fit == "stretch"))).alias("x"))["x"]
    return [*found, *_of_rows("image_size", odd, text, fix, "warning")]


def _of_rows(
    kind: FindingKind, chosen: pl.Series, text: str, fix: str, severity: Severity
) -> list[Finding]:
    count = int(chosen.sum())
    if not count:
        return []
    text = f"{many(count, 'image')} {text}"
    return [Finding(kind, severity, text, count, row_numbers_of(chosen), fix=fix)]


def divided_images(data: ExaminedData, raw: RawImages, prepared: Prepared) -> ExaminedData:
    """Images with their part of the split; under cross-validation that of the run's own model."""
    codes = data.parts.copy()
    apart = {1: prepared.validation} | ({} if prepared.split.folds else {2: prepared.test})
    for code, part in apart.items():
        if part.name not in raw.images:
            codes[part.rows] = code
    return replace(data, parts=codes)


def _parts(raw: RawImages) -> Iterator[tuple[int, PartName]]:
    """Code and name of each existing part, training first."""
    return ((code, part) for code, part in enumerate(PARTS) if part in raw.images)


def _blank(images: ImageInputs) -> npt.NDArray[np.bool_]:
    flat = (block.reshape(len(block), -1) for block in images.blocks())
    return np.concatenate([block.std(axis=1, dtype=np.float32) < _BLANK for block in flat])
