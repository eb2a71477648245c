"""Image overlap between the sides of the split: exact and near duplicates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.data_traits import Feeding
from trainwright.contract.sections.data.images import ImageData
from trainwright.core.formatting import many
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.row_overlap import verdict_of_share
from trainwright.data.base.inputs import Integers, Part
from trainwright.data.images.prepare_images import image_folds
from trainwright.data.images.raw_images import RawImages
from trainwright.data.quality.copies.near_duplicate_images import ImageGroups
from trainwright.data.quality.finding import row_numbers_of
from trainwright.data.split.random_split import PARTS
from trainwright.data.types import Prepared

_TRAIN = 0
_FIX = "remove the copies from the files; data.fields.group keeps images of one scene on one side"


@final
@dataclass(frozen=True, slots=True)
class ImageCopies:
    """Masks bool [N] of images with an exact, and with only a near, duplicate on another side of
    the split."""

    exact: npt.NDArray[np.bool_]
    near: npt.NDArray[np.bool_]


def copies_of(groups: ImageGroups, sides: Integers) -> ImageCopies:
    """Copies among images with `sides` [N]: a fold each, or 0 for training and 1 for held-out, of
    which only held-out images are flagged."""
    exact, near = (_crossing(group, sides) for group in (groups.exact, groups.near))
    return ImageCopies(exact, near & ~exact)


def _crossing(group: Integers, sides: Integers) -> npt.NDArray[np.bool_]:
    """Mask [N] of images whose group has members on several sides."""
    low, high = np.full(len(group), np.iinfo(np.int64).max), np.full(len(group), -1)
    np.minimum.at(low, group, sides)
    np.maximum.at(high, group, sides)
    crossing: npt.NDArray[np.bool_] = (low < high)[group]
    return crossing


def audit_images(
    raw: RawImages, section: Feeding, prepared: Prepared, seed: int, groups: ImageGroups
) -> tuple[AuditResult, ...]:
    """Held-out images that duplicate training images; `groups` come from `groups_of_raw`. Under
    cross-validation every image is held out once. Where only a sample was decoded, exact copies are
    checked over all files and near duplicates within the sample."""
    if fold_count(section):
        sides = image_folds(raw, ImageData.of(section), seed)
        held_out = np.ones(len(sides), dtype=np.bool_)
    else:
        sides = np.zeros(len(groups.exact), dtype=np.int64)
        for part in (prepared.validation, prepared.test):
            sides[_places(raw, part)] = 1
        held_out = sides != _TRAIN
    copies = copies_of(groups, sides)
    count = int(held_out.sum())
    exact = np.flatnonzero(copies.exact & held_out)
    of_all = many(count, "held-out image")
    equal = "in the bytes of their files" if raw.is_sample else "pixel for pixel"
    return (
        AuditResult(
            "same images",
            verdict_of_share(len(exact) / max(1, count), len(exact)),
            len(exact) / max(1, count),
            f"{len(exact):,} of {of_all} equal a training image, {equal}",
            "exact_duplicates",
            len(exact),
            row_numbers_of(exact),
            fix=_FIX,
        ),
        _audit_near(raw, copies.near, held_out, sides),
    )


def _audit_near(
    raw: RawImages, near: npt.NDArray[np.bool_], held_out: npt.NDArray[np.bool_], sides: Integers
) -> AuditResult:
    """Decoded held-out images `near` a training image. A copy is detected only if its training
    image was decoded too, so the share is extrapolated from the sample."""
    places = raw.decoded()[0]
    looked_at = places[held_out[places]]
    found = looked_at[near[looked_at]]
    trains = held_out if held_out.all() else sides == _TRAIN
    seen = trains[places].sum() / max(1, trains.sum())
    share = min(1.0, len(found) / max(1, len(looked_at)) / max(seen, 1e-9))
    of_sample = f", against {seen:.1%} of the training images: about {share:.2%} of all"
    return AuditResult(
        "near images",
        verdict_of_share(share, len(found)),
        share,
        f"{len(found):,} of {many(len(looked_at), 'held-out image')} equal a training image up "
        f"to scale, compression or brightness{of_sample if raw.is_sample else ''}",
        "near_duplicates",
        len(found),
        row_numbers_of(found),
        fix=_FIX,
    )


def _places(raw: RawImages, part: Part) -> Integers:
    """Positions of the images of a part among those of all files."""
    if part.name not in raw.images:
        return part.rows
    before = PARTS[: PARTS.index(part.name)]
    return part.rows + sum(len(raw.labels[name]) for name in before if name in raw.images)
