"""New images for a fitted model: a folder, a table, shards, one image or an IDX file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.table_data import LabelCells
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.table import Bytes, Part
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.images.decoded_cache import DecodedImages, keep_images
from trainwright.data.images.idx import read_idx
from trainwright.data.images.image_files import label_codes
from trainwright.data.images.mnist import read_labelled
from trainwright.data.images.prepare_images import image_part, names_of_codes
from trainwright.data.images.resolve_source import open_source
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.source_file import FileVersion
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
    kept = _read(data, pixels, _without_groups(fields), "INPUT", "no")
    return kept.inputs.pixels, kept.records["name"].to_list()


class Labelled(NamedTuple):
    """Labelled images as a part, their source, and whether images of a group are one unit."""

    part: Part
    version: FileVersion
    grouped: bool


def labelled_images(
    data: Path, pixels: Pixels, target: Target, fields: ImageFields, labels: LabelCells
) -> Labelled:
    """Labelled images for an evaluation. Groups are the unit of the intervals, if the images have
    groups as in training.

    Raises:
        DataMistake: as `unlabelled_images`, or a label unknown to the model.
    """
    if _IDX in data.name:
        file, codes = read_labelled(data)
        _check_one_label(data, target)
        names = names_of_codes(codes, target.classes)
        part = image_part(pixels.read(file.values[:, None]), names, codes, "test")
        return Labelled(part, file.version, False)
    kept = _read_groups(data, pixels, fields, may_be_empty=bool(labels.separator))
    images, cells = pixels.read(kept.inputs.pixels), kept.records["label"]
    if labels.separator:
        # Imported here: few images have several labels.
        from trainwright.data.images.label_lists import tidy_labels

        cells = tidy_labels(cells, kept.records["name"], labels, "DATA")
        values = np.asarray(target.encode(cells), np.int64)
    else:
        values = label_codes(cells, target.classes)
        cells = pl.Series(names_of_codes(values, target.classes))
    part = image_part(images, cells.to_list(), values, "test")
    groups = kept.records["group"]
    grouped = bool((groups != "").any())
    part = replace(part, units=group_codes(groups)) if grouped else part
    return Labelled(part, kept.version, grouped)


def _check_one_label(data: Path, target: Target) -> None:
    if target.target_names:
        raise DataMistake(
            Problem(
                "an IDX file has one label of each image, and the model predicts several",
                path="DATA",
                found=data.name,
                expected="a table of images, tar shards or TFRecord files",
                fix="write the labels of the images into a table",
            )
        )


def _read_groups(
    data: Path, pixels: Pixels, fields: ImageFields, *, may_be_empty: bool
) -> DecodedImages:
    """Labelled images, with groups if they have any: new images need none."""
    labelled: Literal["yes", "or_empty"] = "or_empty" if may_be_empty else "yes"
    try:
        return _read(data, pixels, fields, "DATA", labelled)
    except DataMistake:
        if not fields.group:
            raise
        # A mistake in anything but the groups occurs again.
        return _read(data, pixels, _without_groups(fields), "DATA", labelled)


def _without_groups(fields: ImageFields) -> ImageFields:
    return fields.model_copy(update={"group": ""})


def _read(
    data: Path,
    pixels: Pixels,
    fields: ImageFields,
    path: str,
    labelled: Literal["yes", "or_empty", "no"],
) -> DecodedImages:
    # The contract's root folder is on the training machine.
    told = fields.model_copy(update={"root": ""})
    folder, unkept = data.absolute().parent, Uncached()
    source = open_source(
        data.name,
        folder,
        told,
        path,
        unkept,
        labelled=labelled != "no",
        may_be_empty=labelled == "or_empty",
    )
    return keep_images(source, pixels.rule, "fail", unkept)
