"""Images as rows, and what is wrong with them. What cannot be read at all is told when the images
are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.images import LABEL
from trainwright.data.quality.examined import Examined, examine
from trainwright.data.quality.finding import Finding
from trainwright.data.raw_images import RawImages
from trainwright.data.splits import PARTS
from trainwright.data.table import ImageInputs, PartName

_BLANK = 1.0
_PIXELS = "pixels"


def examine_images(raw: RawImages) -> Examined:
    """The images of the training files, then those of the parts that stand apart: label and hash of
    each."""
    frames, parts = [], []
    for code, part in _parts(raw):
        images, labels = raw.images[part], raw.labels[part]
        names = [raw.names[label] for label in labels.tolist()]
        hashes = [one.hex() for one in images.hashes()]
        frames.append(pl.DataFrame({LABEL: names, _PIXELS: hashes}))
        parts.append(np.full(len(labels), code))
    data = examine(pl.concat(frames), LABEL)
    # A hash is no identifier here: two of one value are one image.
    looks = tuple(replace(look, reason="", kind="categorical") for look in data.looks)
    return replace(data, looks=looks, task="classes", parts=np.concatenate(parts))


def blank_images(raw: RawImages) -> list[Finding]:
    """Images whose pixels deviate by less than 1 of 255."""
    rows = np.concatenate([_blank(raw.images[part]) for _, part in _parts(raw)])
    found = np.flatnonzero(rows)
    if not len(found):
        return []
    text = f"{len(found):,} images are blank"
    fix = "leave them out of the files"
    return [Finding("blank_image", "warning", text, len(found), tuple(found.tolist()), fix=fix)]


def _parts(raw: RawImages) -> Iterator[tuple[int, PartName]]:
    """Code and name of each part that there is, training first."""
    return ((code, part) for code, part in enumerate(PARTS) if part in raw.images)


def _blank(images: ImageInputs) -> npt.NDArray[np.bool_]:
    flat = (block.reshape(len(block), -1) for block in images.blocks())
    return np.concatenate([block.std(axis=1, dtype=np.float32) < _BLANK for block in flat])
