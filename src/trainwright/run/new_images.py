"""New images for the model of a run: a folder, a table, shards, one image or an IDX file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.images import ImageFields
from trainwright.data.cache import Uncached
from trainwright.data.idx import read_idx
from trainwright.data.image_files import label_codes
from trainwright.data.images import image_part
from trainwright.data.mnist import read_labelled
from trainwright.data.pictures.kept import Kept, keep_images
from trainwright.data.pictures.opening import open_source
from trainwright.data.pixels import Pixels
from trainwright.data.table import Part
from trainwright.data.target import Classes
from trainwright.predictor.predictor import Predictor

_IDX = "-idx"


def predict_images(
    predictor: Predictor, pixels: Pixels, data: Path, fields: ImageFields
) -> pl.DataFrame:
    """A prediction for each image, in the order of the source, with the image's name before it;
    those of an IDX file have no names.

    Raises:
        DataMistake: an image cannot be read, or is not of the size where nothing says how to scale.
    """
    if _IDX in data.name:
        return predictor.predict(read_idx(data, str(data), 3, "INPUT").values)
    kept = _read(data, pixels, fields, "INPUT", labelled=False)
    names = kept.records["name"].alias("image")
    return predictor.predict(kept.pixels).insert_column(0, names)


def labelled_images(data: Path, pixels: Pixels, target: Classes, fields: ImageFields) -> Part:
    """Labelled images as a part, for judging a model on them.

    Raises:
        DataMistake: as `predict_images`, or a label that the model does not know.
    """
    if _IDX in data.name:
        images, labels = read_labelled(data)
    else:
        kept = _read(data, pixels, fields, "DATA", labelled=True)
        images, labels = kept.pixels, label_codes(kept.records["label"], target.names)
    return image_part(pixels.read(images), labels, target, "test", np.arange(len(labels)))


def _read(data: Path, pixels: Pixels, fields: ImageFields, path: str, *, labelled: bool) -> Kept:
    # The contract's groups divide rows for a training, and its root is a folder of that machine.
    told = fields.model_copy(update={"group": "", "root": ""})
    folder, unkept = data.absolute().parent, Uncached()
    source = open_source(data.name, folder, told, path, unkept, labelled=labelled)
    return keep_images(source, pixels.rule, "fail", unkept)
