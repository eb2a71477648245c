"""Images with a class each, for a dual encoder that classifies them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, final

import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.pairs import PairData
from trainwright.contract.sections.data.sources import USUAL
from trainwright.core.errors import DataMistake, Place
from trainwright.data.base.table import ImageInputs, Integers
from trainwright.data.images.decoded_cache import keep_images
from trainwright.data.images.image_table import names_table
from trainwright.data.images.resolve_source import open_source
from trainwright.data.pairs.pair_encoder import PairEncoder
from trainwright.data.pairs.pair_table import NumberedImages, pair_codes
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.column_names import absent_column
from trainwright.data.sources.find_source import read_source
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
