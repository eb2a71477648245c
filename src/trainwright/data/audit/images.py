"""The same image on both sides of the split: pixel for pixel, or but for scale and compression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.data import fold_count
from trainwright.contract.images import ImageData
from trainwright.core.units import many
from trainwright.data.audit.audited import Audited
from trainwright.data.audit.rows import verdict_of_share
from trainwright.data.images import image_folds
from trainwright.data.prepared import Prepared
from trainwright.data.quality.alike import ImageGroups
from trainwright.data.quality.finding import positions
from trainwright.data.raw_images import RawImages
from trainwright.data.shares import PARTS
from trainwright.data.table import Integers, Part

_TRAIN = 0
_FIX = (
    "remove the copies from the files; data.fields.group keeps the images of one scene on one side"
)


@final
@dataclass(frozen=True, slots=True)
class ImageCopies:
    """Which of N images have an equal one on another side of the split, and which have no equal
    but a nearly equal one there, bool [N]."""

    exact: npt.NDArray[np.bool_]
    near: npt.NDArray[np.bool_]


def copies_of(groups: ImageGroups, sides: Integers) -> ImageCopies:
    """The copies among images on `sides` [N]: a fold each, or 0 for training and 1 for held-out
    images, of which only the held-out ones count."""
    exact, near = (_crossing(group, sides) for group in (groups.exact, groups.near))
    return ImageCopies(exact, near & ~exact)


def _crossing(group: Integers, sides: Integers) -> npt.NDArray[np.bool_]:
    """Whether the group of each image has members on several sides."""
    low, high = np.full(len(group), np.iinfo(np.int64).max), np.full(len(group), -1)
    np.minimum.at(low, group, sides)
    np.maximum.at(high, group, sides)
    crossing: npt.NDArray[np.bool_] = (low < high)[group]
    return crossing


def audit_images(
    raw: RawImages, section: ImageData, prepared: Prepared, seed: int, groups: ImageGroups
) -> tuple[Audited, ...]:
    """Held-out images that repeat training images; `groups` are those of `groups_of_raw`. With
    folds every image is held out once, and those of the other folds train."""
    if fold_count(section):
        sides = image_folds(raw, section, seed)
        held_out = np.ones(len(sides), dtype=np.bool_)
    else:
        sides = np.zeros(len(groups.exact), dtype=np.int64)
        for part in (prepared.validation, prepared.test):
            sides[_places(raw, part)] = 1
        held_out = sides != _TRAIN
    copies = copies_of(groups, sides)
    count = int(held_out.sum())
    exact, near = np.flatnonzero(copies.exact & held_out), np.flatnonzero(copies.near & held_out)
    of_all = many(count, "held-out image")
    return (
        Audited(
            "same images",
            verdict_of_share(len(exact) / max(1, count)),
            len(exact) / max(1, count),
            f"{len(exact):,} of {of_all} equal a training image, pixel for pixel",
            "exact_duplicates",
            len(exact),
            positions(exact),
            fix=_FIX,
        ),
        Audited(
            "near images",
            verdict_of_share(len(near) / max(1, count)),
            len(near) / max(1, count),
            f"{len(near):,} of {of_all} are a training image but for scale, compression or "
            "brightness",
            "near_duplicates",
            len(near),
            positions(near),
            fix=_FIX,
        ),
    )


def _places(raw: RawImages, part: Part) -> Integers:
    """Where the images of a part stand among those of all files."""
    if part.name not in raw.images:
        return part.rows
    before = PARTS[: PARTS.index(part.name)]
    return part.rows + sum(len(raw.labels[name]) for name in before if name in raw.images)
