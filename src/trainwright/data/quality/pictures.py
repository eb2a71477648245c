"""Images as rows, and what is wrong with them. Files that are damaged, or whose images are of
another size, are refused when they are read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.core.hashing import hash_bytes
from trainwright.data.images import LABEL, RawImages
from trainwright.data.quality.examined import Examined, examine
from trainwright.data.quality.finding import Finding
from trainwright.data.table import Bytes, PartName

_BLANK = 1.0
_BLOCK = 4096
_PIXELS = "pixels"


def examine_images(raw: RawImages) -> Examined:
    """The images of the training file, then those of the test file: label and hash of each."""
    frames, parts = [], []
    codes: tuple[tuple[int, PartName], ...] = ((0, "train"), (2, "test"))
    for code, part in codes:
        images, labels = raw.images[part], raw.labels[part]
        names = [raw.names[label] for label in labels.tolist()]
        hashes = [hash_bytes(image.tobytes()) for image in images]
        frames.append(pl.DataFrame({LABEL: names, _PIXELS: hashes}))
        parts.append(np.full(len(labels), code))
    data = examine(pl.concat(frames), LABEL)
    # A hash is no identifier here: two of one value are one image.
    looks = tuple(replace(look, reason="", kind="categorical") for look in data.looks)
    return replace(data, looks=looks, task="classes", parts=np.concatenate(parts))


def blank_images(raw: RawImages) -> list[Finding]:
    """Images whose pixels deviate by less than 1 of 255."""
    rows = np.concatenate([_blank(images) for images in raw.images.values()])
    found = np.flatnonzero(rows)
    if not len(found):
        return []
    text = f"{len(found):,} images are blank"
    fix = "leave them out of the files"
    return [Finding("blank_image", "warning", text, len(found), tuple(found.tolist()), fix=fix)]


def _blank(images: Bytes) -> npt.NDArray[np.bool_]:
    flat = images.reshape(len(images), -1)
    blocks = [flat[start : start + _BLOCK] for start in range(0, len(flat), _BLOCK)]
    return np.concatenate([block.std(axis=1, dtype=np.float32) < _BLANK for block in blocks])
