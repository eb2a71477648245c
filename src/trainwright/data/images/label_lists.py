"""Images with any number of labels, which stand in one text each."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from trainwright.contract.sections.data.table_data import LabelCells
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.messages import some
from trainwright.data.columns.label_set import LabelSet, fit_label_set, label_lists

_LABEL, _PATH = "label", "data.fields.label"


def tidy_labels(cells: pl.Series, names: pl.Series, cells_hold: LabelCells, path: str) -> pl.Series:
    """The labels of each image in alphabetical order, each once, with the separator between them.
    `names` are those of the images, `path` the place to blame.

    Raises:
        DataMistake: an image without a label, where that says that they are unknown.
    """
    lists = label_lists(cells, cells_hold.separator)
    nothing = lists.list.len() == 0
    if cells_hold.empty == "missing" and (count := int(nothing.sum())):
        raise DataMistake(
            Problem(
                f"{many(count, 'image has', 'images have')} no label",
                path=path,
                found=some(names.filter(nothing).head(5).to_list(), total=count),
                expected="labels of every image",
                fix="add them, or remove the images; if they have none, write "
                "data.labels.empty: none",
            )
        )
    return lists.list.unique().list.sort().list.join(cells_hold.separator)


def count_of_labels(cells: pl.Series, separator: str) -> int:
    """Different labels."""
    return label_lists(cells, separator).explode().drop_nulls().n_unique()


def fit_image_labels(train: pl.DataFrame, cells_hold: LabelCells) -> LabelSet:
    """The labels of the training images.

    Raises:
        DataMistake: as `fit_label_set`.
    """
    try:
        return fit_label_set(train, (_LABEL,), cells_hold.separator, cells_hold.empty)
    except DataMistake as mistake:
        raise DataMistake([replace(one, path=_PATH) for one in mistake.problems]) from None
