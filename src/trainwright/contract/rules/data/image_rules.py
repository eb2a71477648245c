"""Rules on images."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.images import Decoding, ImageData
from trainwright.core.errors import Problem


def images_in_folds_stand_together(
    _contract: Contract, data: ImageData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Every image is tested once in its fold."""
    if fold_count(data) and (data.val_path or data.test_path):
        yield Problem(
            "every image is tested once in its fold, so no part stands apart",
            path="data.split.folds",
            found="folds beside data.val_path or data.test_path",
            fix="remove folds, or the path",
        )


def images_fit_their_limit(
    _contract: Contract, data: ImageData, _written: frozenset[str]
) -> Iterator[Problem]:
    """As `check_pixel_limit`."""
    yield from check_pixel_limit(data.decoding)


def check_pixel_limit(decoding: Decoding) -> Iterator[Problem]:
    """Images are not made larger than those that are refused for their size."""
    if isinstance(decoding.size, str):
        return
    height, width = decoding.size
    if height * width > decoding.most_pixels:
        yield Problem(
            "each image would have more pixels than is allowed",
            path="data.decoding.size",
            found=f"{height:,} x {width:,} = {height * width:,} pixels",
            expected=f"at most {decoding.most_pixels:,} (data.decoding.most_pixels)",
            fix="write a smaller size",
        )


IMAGE_RULES = (images_in_folds_stand_together, images_fit_their_limit)
"""All of them, for the rules of each kind of data."""
