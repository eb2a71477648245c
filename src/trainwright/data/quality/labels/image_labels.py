"""Label errors of images, from out-of-sample predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from trainwright.data.base.inputs import Floats
from trainwright.data.base.row_storage import spread_rows
from trainwright.data.images.raw_images import RawImages
from trainwright.data.quality.copies.near_duplicate_images import pooled_means
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.labels.label_errors import Unjudged, say_suspects, suspects_among
from trainwright.data.quality.labels.out_of_sample import Known

LEAST_RIGHT = 0.7
"""Minimum out-of-sample accuracy of the (simple) models for image labels to be judged: reached on
digits and clothes, not on photographs of many objects."""

_SIDE, _COMPONENTS = 14, 40
_FIX = "inspect the images; correct the labels in the files, or remove the images"


def image_label_errors(raw: RawImages, data: ExaminedData, most: int) -> list[Finding]:
    """Likely label errors of images (see `label_errors`), from the first 40 principal components of
    each image at 14 x 14 grey. More than `most` decoded images are subsampled evenly."""
    places, parts = raw.decoded()
    inside = spread_rows(len(places), most)
    chosen = places[inside]
    inputs = []
    start = 0
    for images in parts:
        stop = start + len(images)
        inputs.append(images.take(inside[(inside >= start) & (inside < stop)] - start))
        start = stop
    numbers = _components(np.concatenate([pooled_means(one, _SIDE) for one in inputs]))
    whole, data = data, data.take(chosen) if len(chosen) < len(data) else data
    nothing = pl.repeat("", len(numbers), eager=True)
    suspects = suspects_among(
        data, lambda rows: Known(nothing.gather(rows), numbers[rows], ()), LEAST_RIGHT
    )
    # Unjudged labels give no finding: these models are too weak for most images.
    found = [] if isinstance(suspects, Unjudged) else say_suspects(data, suspects)
    note = f" (among the {len(data):,} images checked)" if len(data) < len(whole) else ""
    return [replace(one, message=one.message + note, fix=_FIX) for one in found]


def _components(small: Floats) -> Floats:
    """First principal components [N, up to 40] of images [N, H, W]."""
    flat = small.reshape(len(small), -1).astype(np.float64)
    flat -= flat.mean(axis=0)
    _, directions = np.linalg.eigh(flat.T @ flat)
    components: Floats = flat @ directions[:, ::-1][:, :_COMPONENTS]
    return components
