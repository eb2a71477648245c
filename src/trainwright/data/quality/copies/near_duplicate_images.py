"""Near-duplicate images: rescaled, recompressed or slightly brightened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from trainwright.core.formatting import many
from trainwright.data.base.inputs import Floats, ImageInputs, Integers
from trainwright.data.images.raw_images import RawImages
from trainwright.data.quality.copies.duplicates import across_parts, first_of_group
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.split.random_split import PARTS

MOST_BITS = 3
"""Maximum Hamming distance of near duplicates, of 64 bits."""

LEAST_CORRELATION = 0.995
"""Minimum correlation of their pixels at 16 x 16, in grey and in colour."""

_BAND_BITS = 16
_NEIGHBOURS = 20
_SMALL = 16
_LEAST_SIDE = 9
_FLAT = 4.0
_MARGIN = 4.0
"""Minimum difference in grey (of 255) for a bit: less is noise on a flat background."""

_PAIRS = 50_000

Words = npt.NDArray[np.uint64]


@final
@dataclass(frozen=True, slots=True)
class ImageGroups:
    """For each of N images the index of the first with equal pixels, int64 [N], and of the first in
    its connected component of near duplicates, int64 [N]. Blank images are singletons: they are
    equal by chance."""

    exact: Integers
    near: Integers


def image_groups(inputs: Sequence[ImageInputs]) -> ImageGroups:
    """Group exact and near-duplicate images.

    The difference hash (Krawetz 2013, "Kind of like that") has 64 bits: is a pixel at 8 x 9 clearly
    darker than its right neighbour? Two hashes at a Hamming distance of at most 3 share one of 4
    bands of 16 bits; within a band an image is compared with the next 20, in grey and then in
    colour. Images below 9 x 9 are not checked for near duplicates.
    """
    small, bits = (np.concatenate(found) for found in zip(*map(_pooled, inputs), strict=True))
    flat = small.reshape(len(small), -1)
    telling = np.flatnonzero(flat.std(axis=1) >= _FLAT)
    exact = np.arange(len(small))
    exact[telling] = telling[_first_equal([h for one in inputs for h in one.hashes()], telling)]
    if min(inputs[0].size[1:]) < _LEAST_SIDE:
        return ImageGroups(exact, exact)
    first, second = (telling[side] for side in _candidates(bits[telling]))
    alike = _correlations(flat, first, second) >= LEAST_CORRELATION
    pairs = np.stack([first, second], axis=1)[alike]
    if inputs[0].size[0] > 1:
        pairs = pairs[_alike_in_colour(inputs, pairs)]
    same = np.stack([exact[telling], telling], axis=1)
    return ImageGroups(exact, first_of_group(len(small), np.concatenate([pairs, same])))


def groups_of_raw(raw: RawImages) -> ImageGroups:
    """Groups of the images of the training files, then of the separate parts. Where only a sample
    was decoded, files of equal bytes are equal too, except blank ones in the sample."""
    places, inputs = raw.decoded()
    found = image_groups(inputs)
    if not raw.is_sample:
        return found
    hashes = [own for part in PARTS if part in raw.images for own in raw.images[part].hashes()]
    grey = np.concatenate([pooled_means(one, _SMALL).std(axis=(1, 2)) < _FLAT for one in inputs])
    blank = {hashes[place] for place in places[grey].tolist()}
    telling = np.array([at for at, own in enumerate(hashes) if own not in blank], np.int64)
    same = np.stack([telling[_first_equal(hashes, telling)], telling], axis=1)
    of_sample = (np.stack([places[group], places], axis=1) for group in (found.exact, found.near))
    exact, near = (
        first_of_group(len(hashes), np.concatenate([same, pairs])) for pairs in of_sample
    )
    return ImageGroups(exact, near)


def near_images(
    data: ExaminedData, groups: ImageGroups, decoded: Integers | None = None
) -> list[Finding]:
    """Near (not exact) duplicates of an earlier image, and held-out images with a near duplicate in
    training, counted among the `decoded` ones."""
    every = np.arange(len(groups.near))
    copies = np.flatnonzero((groups.near != every) & (groups.exact == every))
    if not len(copies):
        return []
    finding = Finding(
        "near_duplicates",
        "warning",
        f"{many(len(copies), 'near copy', 'near copies')} of an earlier image",
        len(copies),
        data.places(copies),
        fix="inspect them: one scene on both sides of the split inflates the score; "
        "data.fields.group keeps images of one scene together",
    )
    # Exact copies of a training image are a finding of their own.
    equal = np.isin(groups.exact, groups.exact[data.parts == 0]) & (data.parts != 0)
    rows = every if decoded is None else decoded
    rows = rows[~equal[rows]]
    return [finding, *across_parts(data.take(rows), groups.near[rows], "near_duplicates")]


def _first_equal(hashes: Sequence[bytes], rows: Integers) -> Integers:
    """Index in `rows` [n] of the first image with the same hash."""
    first: dict[bytes, int] = {}
    found = [first.setdefault(hashes[row], at) for at, row in enumerate(rows.tolist())]
    return np.array(found, dtype=np.int64)


def _pooled(images: ImageInputs) -> tuple[Floats, Words]:
    """Images pooled to 16 x 16 grey, float32 [N, 16, 16] (a smaller image keeps its pixels), and
    their difference hashes [N]."""
    _, tall, wide = images.size
    cells = _Cells.of(tall, min(_SMALL, tall)), _Cells.of(wide, min(_SMALL, wide))
    coarse = _Cells.of(tall, 8), _Cells.of(wide, 9)
    small, bits = [], []
    for block in images.blocks():
        grey = block.sum(axis=1, dtype=np.uint32).astype(np.float32)
        small.append(_means(grey, *cells) / block.shape[1])
        if min(tall, wide) < _LEAST_SIDE:
            bits.append(np.zeros(len(block), np.uint64))
            continue
        parts = _means(grey, *coarse)
        margin = _MARGIN * block.shape[1]
        darker = (parts[:, :, :-1] + margin < parts[:, :, 1:]).reshape(len(parts), 64)
        bits.append(np.packbits(darker, axis=1).view(np.uint64)[:, 0])
    return np.concatenate(small), np.concatenate(bits)


def _alike_in_colour(inputs: Sequence[ImageInputs], pairs: Integers) -> npt.NDArray[np.bool_]:
    """Which pairs [P, 2] of images, counted through all inputs, agree in all channels [P]."""
    found = [np.empty(0, np.bool_)]
    for start in range(0, len(pairs), _PAIRS):
        rows, sides = np.unique(pairs[start : start + _PAIRS], return_inverse=True)
        first, second = sides.reshape(-1, 2).T
        found.append(_correlations(_colours(inputs, rows), first, second) >= LEAST_CORRELATION)
    return np.concatenate(found)


def _colours(inputs: Sequence[ImageInputs], rows: Integers) -> Floats:
    """The given images pooled to 16 x 16 colours, float32 [N, C x 256]; `rows` ascend."""
    _, tall, wide = inputs[0].size
    cells = _Cells.of(tall, min(_SMALL, tall)), _Cells.of(wide, min(_SMALL, wide))
    ends = np.cumsum([0, *map(len, inputs)])
    found = []
    for one, start, stop in zip(inputs, ends, ends[1:], strict=False):
        for block in one.take(rows[(rows >= start) & (rows < stop)] - start).blocks():
            planes: Floats = block.reshape(-1, tall, wide).astype(np.float32)
            found.append(_means(planes, *cells).reshape(len(block), -1))
    return np.concatenate(found)


def pooled_means(images: ImageInputs, side: int) -> Floats:
    """Images average-pooled to `side` x `side` grey, float32 [N, side, side] (a smaller image keeps
    its pixels). Equal areas have bit-identical means."""
    channels, tall, wide = images.size
    rows, columns = _Cells.of(tall, min(side, tall)), _Cells.of(wide, min(side, wide))
    greys = (block.sum(axis=1, dtype=np.uint32).astype(np.float32) for block in images.blocks())
    return np.concatenate([_means(grey, rows, columns) / channels for grey in greys])


class _Cells(NamedTuple):
    """One axis of an image in cells of `sizes` pixels: `marks` [pixels, parts] is the one-hot
    assignment of pixels to cells."""

    marks: Floats
    sizes: Integers

    @classmethod
    def of(cls, pixels: int, parts: int) -> _Cells:
        """Cells of sizes as equal as possible."""
        ends = np.linspace(0, pixels, parts + 1).astype(np.int64)
        places = np.arange(pixels)[:, None]
        marks = ((places >= ends[:-1]) & (places < ends[1:])).astype(np.float64)
        return cls(marks, np.diff(ends))


def _means(grey: Floats, rows: _Cells, columns: _Cells) -> Floats:
    """Cell means of images [N, H, W], from exact integer sums."""
    along = (grey @ columns.marks.astype(np.float32)).astype(np.float64)
    sums = rows.marks.T @ along
    means: Floats = (sums / (rows.sizes[:, None] * columns.sizes)).astype(np.float32)
    return means


def _candidates(bits: Words) -> tuple[Integers, Integers]:
    """Pairs at a Hamming distance of at most 3, earlier image first."""
    pairs = [np.empty((2, 0), np.int64)]
    for band in range(64 // _BAND_BITS):
        keys = (bits >> np.uint64(band * _BAND_BITS)) & np.uint64(2**_BAND_BITS - 1)
        order = np.lexsort((bits, keys))
        for shift in range(1, min(_NEIGHBOURS, len(bits) - 1) + 1):
            one, other = order[:-shift], order[shift:]
            few = np.bitwise_count(bits[one] ^ bits[other]) <= MOST_BITS
            near = (keys[one] == keys[other]) & few
            pairs.append(np.sort(np.stack([one[near], other[near]]), axis=0))
    first, second = np.concatenate(pairs, axis=1)
    # One integer per pair: sorting two columns is slow.
    found = np.unique(first * len(bits) + second)
    return found // max(1, len(bits)), found % max(1, len(bits))


def _correlations(flat: Floats, first: Integers, second: Integers) -> Floats:
    """Correlation of each pair of images [P], given as rows of pixels [N, K]."""
    centred = flat - flat.mean(axis=1, keepdims=True)
    unit = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    found = [np.empty(0)]
    for start in range(0, len(first), _PAIRS):
        one, other = (unit[rows[start : start + _PAIRS]] for rows in (first, second))
        found.append(np.einsum("pk,pk->p", one, other))
    return np.concatenate(found)
