"""Labelled images: reading, splitting and preparation; new images for a fitted model."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.images import ImageData, ImageFields
from trainwright.contract.sections.data.split import GroupSplit, RandomSplit, Split, StratifiedSplit
from trainwright.contract.sections.data.table_data import LabelCells
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.files import hash_bytes, hash_value
from trainwright.data.base.inputs import Bytes, ImageInputs, Integers, Part, PartName
from trainwright.data.base.messages import quoted
from trainwright.data.columns.class_target import Classes
from trainwright.data.columns.fit_target import choose_positive
from trainwright.data.columns.target import NO_POSITIVE, Target
from trainwright.data.encoders.pixel_statistics import Pixels, fit_pixels
from trainwright.data.images.decoded_cache import DecodedImages, keep_images
from trainwright.data.images.image_files import label_codes, read_pictures
from trainwright.data.images.mnist import read_idx, read_labelled, read_mnist
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.resolve_source import holds_idx, open_source
from trainwright.data.sources.cache import Uncached
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.split.fold_split import Folds, check_fold_classes, cut_folds
from trainwright.data.split.groups import group_codes
from trainwright.data.split.random_split import PARTS, Shares, rows_of_parts
from trainwright.data.split.split_report import check_crossing, report_split
from trainwright.data.split.splits import split_rows
from trainwright.data.types import Prepared

LABEL = "label"
"""The column with the class of each image, in the frames of its parts."""

_GROUP = "group"
_PIXELS = "pixels"
_IDX = "-idx"


def read_images(section: ImageData, folder: Path, most: int = sys.maxsize) -> RawImages:
    """Read the images that the section names; of more files than `most` in a source as many are
    decoded.

    Raises:
        DataMistake: every problem that could be found at once.
    """
    if holds_idx(folder / section.path):
        return read_mnist(section, folder)
    return read_pictures(section, folder, most)


def prepare_images(raw: RawImages, section: ImageData, seed: int) -> Prepared:
    """Divide off the parts that do not stand apart, and fit mean and deviation on the training
    images alone (those of them that were decoded). With folds this is the data of the run's own
    model, which trains on all images; its test part are the images of all folds.

    Raises:
        DataMistake: the images cannot be divided so, or groups cross parts that stand apart.
    """
    split = split_of(section)
    frame = _frame(raw, "train", grouped=bool(section.fields.group))
    if fold_count(section):
        _check_together(raw, section)
        return _prepare_whole(raw, section, cut_folds(frame, LABEL, split, seed))
    codes = split_rows(frame, LABEL, split, Shares.of(split, raw.facts.given), seed)
    rows = rows_of_parts(codes)
    rows |= {part: np.arange(len(raw.labels[part])) for part in PARTS if part in raw.facts.given}
    prepared = _prepared(raw, section, rows)
    check_crossing(prepared.split, split, "data.fields.group", section.fields.group)
    return prepared


def prepare_image_fold(raw: RawImages, section: ImageData, seed: int, number: int) -> Prepared:
    """The data of the training that tests fold `number`, counted from 0.

    Raises:
        As `prepare_images`, which has found every mistake before.
    """
    frame = _frame(raw, "train", grouped=bool(section.fields.group))
    folds = cut_folds(frame, LABEL, split_of(section), seed)
    return _prepared(raw, section, rows_of_parts(folds.parts(number)))


def image_folds(raw: RawImages, section: ImageData, seed: int) -> Integers:
    """Fold of each image, from 0."""
    frame = _frame(raw, "train", grouped=bool(section.fields.group))
    return cut_folds(frame, LABEL, split_of(section), seed).of_row


def _prepare_whole(raw: RawImages, section: ImageData, folds: Folds) -> Prepared:
    rows = rows_of_parts(folds.whole()) | {"test": folds.tested}
    whole = _prepared(raw, section, rows)
    frame = folds.frame.with_columns(pl.Series(_PIXELS, raw.images["train"].hashes()))
    reports = []
    for number in range(folds.count):
        chosen = rows_of_parts(folds.parts(number))
        _check_fold(raw, section, chosen["train"], number)
        parts = {part: frame[chosen[part]] for part in PARTS}
        of_classes = "" if section.labels.separator else LABEL
        reports.append(report_split(parts, folds.split, of_classes, (LABEL, _PIXELS), made=True))
    return whole.with_folds(folds, reports)


def _check_fold(raw: RawImages, section: ImageData, train: Integers, number: int) -> None:
    """Every class, and each label both ways, is among the training images of a fold."""
    if section.labels.separator:
        _target(raw, section, train)
        return
    there = {raw.names[code] for code in np.unique(raw.labels["train"][train])}
    absent = [name for name in raw.names if name not in there]
    check_fold_classes(absent, number, "lower folds, or add images of other groups")


def _target(raw: RawImages, section: ImageData, train: Integers) -> Target:
    """What is predicted, by these images of the training files.

    Raises:
        DataMistake: a label that all of them have, or none.
    """
    if not section.labels.separator:
        return Classes(LABEL, raw.names, _positive(raw))
    # Imported here: few images have several labels.
    from trainwright.data.images.image_table import fit_image_labels

    return fit_image_labels(_frame(raw, "train", grouped=False)[train], section.labels)


def _prepared(raw: RawImages, section: ImageData, rows: Mapping[PartName, Integers]) -> Prepared:
    """The images with the given places in each part."""
    grouped = bool(section.fields.group)
    target = _target(raw, section, rows["train"])
    parts = {part: _part(raw, part, rows[part], target, grouped=grouped) for part in rows}
    inputs = {part: raw.images[_source(raw, part)].take(rows[part]) for part in rows}
    features = fit_pixels(inputs["train"].decoded()[1], raw.rule)
    compared = {
        part: parts[part].frame.with_columns(pl.Series(_PIXELS, inputs[part].hashes()))
        for part in rows
    }
    made = len(raw.facts.given) < len(PARTS) - 1
    of_classes = "" if target.target_names else LABEL
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report_split(compared, split_of(section), of_classes, (LABEL, _PIXELS), made=made),
        version=_version(raw, rows, features, target),
    )


def _check_together(raw: RawImages, section: ImageData) -> None:
    """Folds need all images in one place, and one of each class for every fold."""
    if raw.facts.given:
        raise DataMistake(
            Problem(
                "every image is tested once in its fold, so no part stands apart",
                path="data.split.folds",
                found=f"images of their own for {' and '.join(sorted(raw.facts.given))}",
                expected="all images in one place",
                fix="remove folds, or name in data.path what holds all of them",
            )
        )
    count = fold_count(section)
    rare = [
        f"{name} ({images})" for name, images in raw.facts.target.classes.items() if images < count
    ]
    if rare and not (section.fields.group or section.labels.separator):
        raise DataMistake(
            Problem(
                "classes have fewer images than there are folds",
                path="data.split.folds",
                found=quoted(rare),
                expected=f"at least {count} images of each class",
                fix="lower data.split.folds, or add images",
            )
        )


def split_of(section: ImageData) -> Split:
    """How the images are divided: by whole groups where they have some, else within each class, or
    at random where they have any number of labels."""
    folds, validation = section.split.folds, section.validation
    test = 0.0 if fold_count(section) else section.test
    if section.fields.group:
        return GroupSplit(
            kind="group", column=_GROUP, validation=validation, test=test, folds=folds
        )
    if section.labels.separator:
        return RandomSplit(kind="random", validation=validation, test=test, folds=folds)
    return StratifiedSplit(kind="stratified", validation=validation, test=test, folds=folds)


def image_part(
    images: ImageInputs, labels: Sequence[str], values: Integers, name: PartName
) -> Part:
    """Images with their labels [N] and the encoded ones as a part; its frame has the labels
    alone."""
    frame, rows = pl.DataFrame({LABEL: labels}), np.arange(len(labels))
    return Part(name, frame, images, values, rows, rows)


def _part(raw: RawImages, part: PartName, rows: Integers, target: Target, *, grouped: bool) -> Part:
    source = _source(raw, part)
    frame = _frame(raw, source, grouped=grouped)[rows]
    units = group_codes(frame[_GROUP]) if grouped else np.arange(len(rows))
    values = raw.labels[source][rows]
    if target.target_names:
        values = np.asarray(target.encode(target.cells(frame)), np.int64)
    return Part(part, frame, raw.images[source].take(rows), values, rows, units)


def _source(raw: RawImages, part: PartName) -> PartName:
    return part if part in raw.facts.given else "train"


def _frame(raw: RawImages, source: PartName, *, grouped: bool) -> pl.DataFrame:
    """The label of each image, and its group where images have one."""
    frame = pl.DataFrame({LABEL: names_of_codes(raw.labels[source], raw.names)})
    if not grouped:
        return frame
    return frame.with_columns(raw.records[source][_GROUP].replace("", None))


def _positive(raw: RawImages) -> int:
    if len(raw.names) != 2:
        return NO_POSITIVE
    counts = np.bincount(raw.labels["train"], minlength=2).tolist()
    positive, _ = choose_positive(dict(zip(raw.names, counts, strict=True)))
    return raw.names.index(positive)


def names_of_codes(labels: Integers, names: tuple[str, ...]) -> list[str]:
    """The class of each image."""
    return [names[code] for code in labels.tolist()]


def _version(
    raw: RawImages, rows: Mapping[PartName, Integers], features: Pixels, target: Target
) -> str:
    return hash_value(
        {
            "scheme": 2,
            "files": [file.sha256 for file in raw.facts.files],
            "split": {part: hash_bytes(r.astype("<i8").tobytes()) for part, r in rows.items()},
            "features": features.to_json(),
            "target": target.to_json(),
        }
    )


class Unlabelled(NamedTuple):
    """Images, uint8 [N, C, H, W] or [N, H, W], their names, and what is said of them."""

    pixels: Bytes
    names: Sequence[str] = ()
    notes: Sequence[str] = ()


def unlabelled_images(data: Path, pixels: Pixels, fields: ImageFields) -> Unlabelled:
    """New images in the order of the source; images of an IDX file have no names.

    Raises:
        DataMistake: an image cannot be read, or has another size and no resizing rule applies.
    """
    if _IDX in data.name:
        return Unlabelled(read_idx(data, str(data), 3, "INPUT").values)
    kept = _read(data, pixels, _without_groups(fields), "INPUT", "no")
    return Unlabelled(kept.inputs.pixels, kept.records["name"].to_list(), kept.notes)


class Labelled(NamedTuple):
    """Labelled images as a part, their source, whether images of a group are one unit, and what is
    said of them."""

    part: Part
    version: FileVersion
    grouped: bool
    notes: Sequence[str] = ()


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
        from trainwright.data.images.image_table import tidy_labels

        cells = tidy_labels(cells, kept.records["name"], labels, "DATA")
        values = np.asarray(target.encode(cells), np.int64)
    else:
        values = label_codes(cells, target.classes)
        cells = pl.Series(names_of_codes(values, target.classes))
    part = image_part(images, cells.to_list(), values, "test")
    groups = kept.records["group"].replace("", None)
    grouped = groups.null_count() < len(groups)
    part = replace(part, units=group_codes(groups)) if grouped else part
    return Labelled(part, kept.version, grouped, kept.notes)


def _check_one_label(data: Path, target: Target) -> None:
    if target.target_names:
        raise DataMistake(
            Problem(
                "an IDX file has one label of each image, and the model predicts several",
                path="DATA",
                found=data.name,
                expected="a table of images or tar shards",
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
