"""New images for a fitted model: a folder, a table, shards, one image or an IDX file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainwright.contract.sections.data.images import ImageFields
from trainwright.core.errors import DataMistake
from trainwright.data.base.table import Bytes, Integers, Part
from trainwright.data.columns.target import Classes
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.images.decoded_cache import DecodedImages, keep_images
from trainwright.data.images.idx import read_idx
from trainwright.data.images.image_files import label_codes
from trainwright.data.images.mnist import read_labelled
from trainwright.data.images.prepare_images import image_part
from trainwright.data.images.resolve_source import open_source
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.data_source import FileVersion
from trainwright.data.split.groups import group_codes

_IDX = "-idx"


def unlabelled_images(data: Path, pixels: Pixels, fields: ImageFields) -> tuple[Bytes, list[str]]:
    """New images, uint8 [N, C, H, W] or [N, H, W], in the order of the source, and their names;
    images of an IDX file have none.

    Raises:
        DataMistake: an image cannot be read, or has another size and no resizing rule applies.
    """
    if _IDX in data.name:
        return read_idx(data, str(data), 3, "INPUT").values, []
    kept = _read(data, pixels, _without_groups(fields), "INPUT", labelled=False)
    return kept.inputs.pixels, kept.records["name"].to_list()


class Labelled(NamedTuple):
    """Labelled images as a part, their source, and whether images of a group are one unit."""

    part: Part
    version: FileVersion
    grouped: bool


def labelled_images(data: Path, pixels: Pixels, target: Classes, fields: ImageFields) -> Labelled:
    """Labelled images for an evaluation. Groups are the unit of the intervals, if the images have
    groups as in training.

    Raises:
        DataMistake: as `unlabelled_images`, or a label unknown to the model.
    """
    if _IDX in data.name:
        file, labels = read_labelled(data)
        return Labelled(_part(pixels, file.values[:, None], labels, target), file.version, False)
    kept = _read_groups(data, pixels, fields)
    part = _part(
        pixels, kept.inputs.pixels, label_codes(kept.records["label"], target.names), target
    )
    groups = kept.records["group"]
    grouped = bool((groups != "").any())
    part = replace(part, units=group_codes(groups)) if grouped else part
    return Labelled(part, kept.version, grouped)


def _part(pixels: Pixels, images: Bytes, labels: Integers, target: Classes) -> Part:
    return image_part(pixels.read(images), labels, target, "test", np.arange(len(labels)))


def _read_groups(data: Path, pixels: Pixels, fields: ImageFields) -> DecodedImages:
    """Labelled images, with groups if they have any: new images need none."""
    try:
        return _read(data, pixels, fields, "DATA", labelled=True)
    except DataMistake:
        if not fields.group:
            raise
        # A mistake in anything but the groups occurs again.
        return _read(data, pixels, _without_groups(fields), "DATA", labelled=True)


def _without_groups(fields: ImageFields) -> ImageFields:
    return fields.model_copy(update={"group": ""})


def _read(
    data: Path, pixels: Pixels, fields: ImageFields, path: str, *, labelled: bool
) -> DecodedImages:
    # The contract's root folder is on the training machine.
    told = fields.model_copy(update={"root": ""})
    folder, unkept = data.absolute().parent, Uncached()
    source = open_source(data.name, folder, told, path, unkept, labelled=labelled)
    return keep_images(source, pixels.rule, "fail", unkept)
