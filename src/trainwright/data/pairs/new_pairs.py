"""New pairs, labelled images and texts for a fitted model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.pairs import PairData, PictureTable
from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.data.base.inputs import ImageInputs, Integers, Part
from trainwright.data.base.pair_inputs import OneSide, PairInputs, WantedSide
from trainwright.data.columns.retrieval_targets import caption_codes
from trainwright.data.encoders.pixel_statistics import Pixels
from trainwright.data.images.decoded_cache import keep_images
from trainwright.data.images.image_table import names_table
from trainwright.data.images.prepare_images import unlabelled_images
from trainwright.data.images.resolve_source import open_source
from trainwright.data.pairs.pair_encoder import PairEncoder
from trainwright.data.pairs.pair_table import (
    NumberedImages,
    PairColumns,
    PairRequest,
    keep_pairs,
    pair_codes,
)
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.find_source import absent_column, read_source
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.groups import group_codes


@final
class LabelColumns(NamedTuple):
    """The columns of class and group, which is empty for none."""

    label: str
    group: str = ""


@final
class LabelledPictures(NamedTuple):
    """N images, the rows of their table with a column of classes, and the unit of each [N]."""

    images: ImageInputs
    frame: pl.DataFrame
    units: Integers


def labelled_pictures(
    data: str, encoder: PairEncoder, section: PairData, columns: LabelColumns
) -> LabelledPictures:
    """Images of a table with a column of classes, or of a folder with a folder for each class.

    Raises:
        DataMistake: they cannot be read, or a column is missing.
    """
    at = Path(data).absolute()
    fields = ImageFields(image=section.image, label=columns.label)
    is_table = names_table(data)
    source = open_source(at.name, at.parent, fields, "DATA", Uncached(), labelled=not is_table)
    if not is_table:
        kept = keep_images(source, encoder.pixels.rule, "fail", Uncached())
        frame = kept.records.select(
            pl.col("name").alias(section.image), pl.col("label").alias(columns.label)
        )
        return _with_units(frame, encoder, kept.inputs, columns)
    rows = read_source(at.name, at.parent, "DATA", USUAL).frame
    problems = [
        absent_column(key, name, rows.columns, Place(data))
        for key, name in (("label", columns.label), ("group", columns.group))
        if name and name not in rows.columns
    ]
    if problems:
        raise DataMistake(problems)
    kept = keep_images(NumberedImages(source), encoder.pixels.rule, "fail", Uncached())
    there = kept.records["label"].cast(pl.Int64).to_numpy()
    return _with_units(rows[there], encoder, kept.inputs, columns)


def _with_units(
    frame: pl.DataFrame, encoder: PairEncoder, images: ImageInputs, columns: LabelColumns
) -> LabelledPictures:
    read = encoder.pixels.read(images.pixels).take(images.rows)
    is_grouped = columns.group and columns.group in frame.columns
    units = group_codes(frame[columns.group]) if is_grouped else pair_codes(read.hashes())
    return LabelledPictures(read, frame, units)


class LabelledPairs(NamedTuple):
    """New pairs as a part, their source, and whether pairs of a group are one unit."""

    part: Part
    version: FileVersion
    grouped: bool


def labelled_pairs(data: Path, encoder: PairEncoder, section: PairData) -> LabelledPairs:
    """Pairs of another table, for an evaluation. Its pairs are the candidates.

    Raises:
        DataMistake: they cannot be read.
    """
    found = captioned_pictures(data, encoder.pixels, section)
    texts = encoder.captions.tokenize(found.part.frame[section.caption].to_list())
    inputs = PairInputs(found.part.inputs.pictures(), texts)
    return found._replace(part=replace(found.part, inputs=inputs))


def captioned_pictures(data: Path, pixels: Pixels, section: PictureTable) -> LabelledPairs:
    """Images of another table with their captions, of which the part has the codes.

    Raises:
        DataMistake: they cannot be read.
    """
    # The contract's root folder is on the training machine.
    columns = PairColumns(section.image, section.caption, section.group)
    group = columns.group
    if group and group not in read_source(data.name, data.absolute().parent, "DATA").frame.columns:
        columns = columns._replace(group="")
    asked = PairRequest(data.name, data.absolute().parent, "DATA", columns, Uncached())
    kept = keep_pairs(asked, pixels.rule, drops=False)
    images = kept.images.inputs
    captions = kept.frame[columns.caption]
    codes = np.stack([pair_codes(images.hashes()), caption_codes(captions)], axis=1)
    units = group_codes(kept.frame[columns.group]) if columns.group else codes[:, 0]
    part = Part("test", kept.frame, images, codes, kept.rows, units)
    return LabelledPairs(part, kept.images.version, bool(columns.group))


def read_pair_side(
    data: str, encoder: PairEncoder, section: PairData, wanted: WantedSide = "given"
) -> OneSide:
    """The images or the texts of a file: of a table with columns of both the `wanted` ones, else
    its images; of a folder or another file the images.

    Raises:
        DataMistake: it holds no `wanted` ones, or they cannot be read.
    """
    if wanted in ("queries", "passages"):
        raise DataMistake(
            Problem(
                "the model compares images with texts",
                path="--as",
                found=wanted,
                expected="images or texts",
                fix="write --as texts",
            )
        )
    if names_table(data):
        frame = read_source(data, Path(), "INPUT", USUAL).frame
        is_of_images = section.image in frame.columns
        if wanted == "texts" or (wanted != "images" and not is_of_images):
            texts = encoder.read_captions(frame, data)
            return OneSide("texts", "images", texts, frame[encoder.caption].cast(pl.String), frame)
    if wanted == "texts":
        raise DataMistake(
            Problem(
                "these are no texts",
                found=data,
                expected=f"a table with a column {encoder.caption!r}",
                fix="write the texts into such a table",
            )
        )
    fields = ImageFields(image=section.image)
    images, names, _ = unlabelled_images(Path(data), encoder.pixels, fields)
    shown = names or [str(row) for row in range(len(images))]
    beside = pl.DataFrame(schema={section.image: pl.String})
    if names_table(data):
        beside = read_source(data, Path(), "INPUT", USUAL).frame
    return OneSide(
        "images", "texts", encoder.pixels.read(images), pl.Series("image", shown), beside
    )


def read_captions(
    data: str, encoder: PairEncoder, section: PairData, reading: Reading
) -> pl.DataFrame | None:
    """The texts of a table that has a column of captions and none of images; else none.

    Raises:
        DataMistake: the table cannot be read, or lacks a text.
    """
    rows = read_source(data, Path(), "INPUT", reading).frame
    if encoder.caption not in rows.columns or section.image in rows.columns:
        return None
    encoder.read_captions(rows, data)
    return rows
