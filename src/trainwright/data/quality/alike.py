"""Images that are nearly the same: scaled, packed again, a little brighter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trainwright.core.units import many
from trainwright.data.quality.duplicates import across_parts, first_of_group
from trainwright.data.quality.examined import Examined
from trainwright.data.quality.finding import Finding
from trainwright.data.raw_images import RawImages
from trainwright.data.shares import PARTS
from trainwright.data.table import Floats, ImageInputs, Integers

MOST_BITS = 3
"""Near duplicates differ in at most so many of the 64 bits."""

LEAST_CORRELATION = 0.995
"""And their pixels, at 16 x 16, are correlated at least so."""

_BAND_BITS = 16
_NEIGHBOURS = 20
_SMALL = 16
_FLAT = 4.0
_MARGIN = 4.0
"""Greys of 255 that a part must be darker by: else noise on an even ground makes bits."""

_PAIRS = 50_000

Words = npt.NDArray[np.uint64]


def near_images(raw: RawImages, data: Examined) -> list[Finding]:
    """Images that are nearly, and not exactly, an earlier one, and those of them whose like stands
    in the training part.

    Each image has 64 bits: whether a pixel of it, at 8 x 9, is clearly darker than its right
    neighbour (the difference hash, Krawetz 2013, "Kind of like that"). Two of at most 3 different
    bits share one of 4 bands of 16 bits; of those in one band an image is compared with the next
    20. Images of one grey have no bits that mean something and are left out, as are those below
    9 x 9.
    """
    inputs = [raw.images[part] for part in PARTS if part in raw.images]
    if min(inputs[0].size[1:]) < 9:
        return []
    pooled = [_pooled(one) for one in inputs]
    small, bits = (np.concatenate(found) for found in zip(*pooled, strict=True))
    telling = np.flatnonzero(small.reshape(len(small), -1).std(axis=1) >= _FLAT)
    first, second = (telling[side] for side in _candidates(bits[telling]))
    alike = _correlations(small, first, second) >= LEAST_CORRELATION
    exact = data.of_name("pixels").cells
    same = exact.gather(first).to_numpy() == exact.gather(second).to_numpy()
    pairs = np.stack([first, second], axis=1)[alike & ~same]
    group = first_of_group(len(bits), pairs)
    copies = np.flatnonzero(group != np.arange(len(bits)))
    if not len(copies):
        return []
    finding = Finding(
        "near_duplicates",
        "warning",
        f"{many(len(copies), 'near copy', 'near copies')} of an earlier image",
        len(copies),
        data.places(copies),
        fix="look at them: one scene on both sides of the split makes the score too good; "
        "data.fields.group keeps images of one scene together",
    )
    return [finding, *across_parts(data, group, "near_duplicates")]


def _pooled(images: ImageInputs) -> tuple[Floats, Words]:
    """The mean grey of each of 16 x 16 parts of every image, float32 [N, 16, 16] (of a smaller
    image its pixels), and the bits [N]. Equal areas have equal means to the last bit."""
    _, tall, wide = images.size
    cells = _Cells.of(tall, min(_SMALL, tall)), _Cells.of(wide, min(_SMALL, wide))
    coarse = _Cells.of(tall, 8), _Cells.of(wide, 9)
    small, bits = [], []
    for block in images.blocks():
        grey = block.sum(axis=1, dtype=np.uint32).astype(np.float32)
        small.append(_means(grey, *cells) / block.shape[1])
        parts = _means(grey, *coarse)
        margin = _MARGIN * block.shape[1]
        darker = (parts[:, :, :-1] + margin < parts[:, :, 1:]).reshape(len(parts), 64)
        bits.append(np.packbits(darker, axis=1).view(np.uint64)[:, 0])
    return np.concatenate(small), np.concatenate(bits)


def pooled_means(images: ImageInputs, side: int) -> Floats:
    """The mean grey of each of `side` x `side` parts of every image, float32 [N, side, side] (of a
    smaller image its pixels)."""
    channels, tall, wide = images.size
    rows, columns = _Cells.of(tall, min(side, tall)), _Cells.of(wide, min(side, wide))
    greys = (block.sum(axis=1, dtype=np.uint32).astype(np.float32) for block in images.blocks())
    return np.concatenate([_means(grey, rows, columns) / channels for grey in greys])


class _Cells(NamedTuple):
    """A side of an image cut into parts of `sizes` pixels: `marks` [pixels, parts] has a 1
    where a pixel is of a part."""

    marks: Floats
    sizes: Integers

    @classmethod
    def of(cls, pixels: int, parts: int) -> _Cells:
        """Parts as equal as they can be."""
        ends = np.linspace(0, pixels, parts + 1).astype(np.int64)
        places = np.arange(pixels)[:, None]
        marks = ((places >= ends[:-1]) & (places < ends[1:])).astype(np.float64)
        return cls(marks, np.diff(ends))


def _means(grey: Floats, rows: _Cells, columns: _Cells) -> Floats:
    """The means of parts of images [N, H, W]. The sums are of whole numbers, and exact."""
    along = (grey @ columns.marks.astype(np.float32)).astype(np.float64)
    sums = rows.marks.T @ along
    means: Floats = (sums / (rows.sizes[:, None] * columns.sizes)).astype(np.float32)
    return means


def _candidates(bits: Words) -> tuple[Integers, Integers]:
    """Pairs of at most 3 different bits, the earlier image first."""
    pairs = [np.empty((2, 0), np.int64)]
    for band in range(64 // _BAND_BITS):
        keys = (bits >> np.uint64(band * _BAND_BITS)) & np.uint64(2**_BAND_BITS - 1)
        order = np.lexsort((bits, keys))
        for shift in range(1, min(_NEIGHBOURS, len(bits) - 1) + 1):
            one, other = order[:-shift], order[shift:]
            few = np.bitwise_count(bits[one] ^ bits[other]) <= MOST_BITS
            near = (keys[one] == keys[other]) & few
            pairs.append(np.sort(np.stack([one[near], other[near]]), axis=0))
    found = np.unique(np.concatenate(pairs, axis=1), axis=1)
    return found[0], found[1]


def _correlations(small: Floats, first: Integers, second: Integers) -> Floats:
    flat = small.reshape(len(small), -1)
    found = [np.empty(0)]
    for start in range(0, len(first), _PAIRS):
        one, other = (flat[rows[start : start + _PAIRS]] for rows in (first, second))
        one, other = (rows - rows.mean(axis=1, keepdims=True) for rows in (one, other))
        norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
        found.append((one * other).sum(axis=1) / norms)
    return np.concatenate(found)
