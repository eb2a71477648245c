"""Labelled images: reading, splitting and preparation."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.data.split import GroupSplit, Split, StratifiedSplit
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.base.messages import quoted
from trainwright.data.base.table import ImageInputs, Integers, Part, PartName
from trainwright.data.columns.fit_target import choose_positive
from trainwright.data.columns.target import Classes
from trainwright.data.columns.target_kind import NO_POSITIVE
from trainwright.data.encoders.pixel_statistics import Pixels, fit_pixels
from trainwright.data.images.image_files import read_pictures
from trainwright.data.images.mnist import read_mnist
from trainwright.data.images.raw_images import RawImages
from trainwright.data.images.resolve_source import holds_idx
from trainwright.data.split.fold_split import Folds, check_fold_classes, cut_folds
from trainwright.data.split.fractions import PARTS, Shares, rows_of_parts
from trainwright.data.split.groups import group_codes
from trainwright.data.split.split_report import check_crossing, report_split
from trainwright.data.split.splits import split_rows
from trainwright.data.types import Prepared

LABEL = "label"
"""The column with the class of each image, in the frames of its parts."""

_GROUP = "group"
_PIXELS = "pixels"


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
        there = {raw.names[code] for code in np.unique(raw.labels["train"][chosen["train"]])}
        absent = [name for name in raw.names if name not in there]
        check_fold_classes(absent, number, "lower folds, or add images of other groups")
        parts = {part: frame[chosen[part]] for part in PARTS}
        reports.append(report_split(parts, folds.split, LABEL, (LABEL, _PIXELS), made=True))
    return whole.with_folds(folds, reports)


def _prepared(raw: RawImages, section: ImageData, rows: Mapping[PartName, Integers]) -> Prepared:
    """The images with the given places in each part."""
    grouped = bool(section.fields.group)
    target = Classes(LABEL, raw.names, _positive(raw))
    parts = {part: _part(raw, part, rows[part], grouped=grouped) for part in rows}
    inputs = {part: raw.images[_source(raw, part)].take(rows[part]) for part in rows}
    features = fit_pixels(inputs["train"].decoded()[1], raw.rule)
    compared = {
        part: parts[part].frame.with_columns(pl.Series(_PIXELS, inputs[part].hashes()))
        for part in rows
    }
    made = len(raw.facts.given) < len(PARTS) - 1
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report_split(compared, split_of(section), LABEL, (LABEL, _PIXELS), made=made),
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
    if rare and not section.fields.group:
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
    """How the images are divided: within each class, or by whole groups where they have some."""
    folds, validation = section.split.folds, section.validation
    test = 0.0 if fold_count(section) else section.test
    if section.fields.group:
        return GroupSplit(
            kind="group", column=_GROUP, validation=validation, test=test, folds=folds
        )
    return StratifiedSplit(kind="stratified", validation=validation, test=test, folds=folds)


def image_part(
    images: ImageInputs, labels: Integers, target: Classes, name: PartName, rows: Integers
) -> Part:
    """Images with label codes [N] as a part; its frame has the labels alone."""
    frame = pl.DataFrame({LABEL: _named(labels, target.names)})
    return Part(name, frame, images, labels, rows, np.arange(len(labels)))


def _part(raw: RawImages, part: PartName, rows: Integers, *, grouped: bool) -> Part:
    source = _source(raw, part)
    frame = _frame(raw, source, grouped=grouped)[rows]
    units = group_codes(frame[_GROUP]) if grouped else np.arange(len(rows))
    labels = raw.labels[source][rows]
    return Part(part, frame, raw.images[source].take(rows), labels, rows, units)


def _source(raw: RawImages, part: PartName) -> PartName:
    return part if part in raw.facts.given else "train"


def _frame(raw: RawImages, source: PartName, *, grouped: bool) -> pl.DataFrame:
    """The label of each image, and its group where images have one."""
    frame = pl.DataFrame({LABEL: _named(raw.labels[source], raw.names)})
    return frame.with_columns(raw.records[source][_GROUP]) if grouped else frame


def _positive(raw: RawImages) -> int:
    if len(raw.names) != 2:
        return NO_POSITIVE
    counts = np.bincount(raw.labels["train"], minlength=2).tolist()
    positive, _ = choose_positive(dict(zip(raw.names, counts, strict=True)))
    return raw.names.index(positive)


def _named(labels: Integers, names: tuple[str, ...]) -> list[str]:
    return [names[code] for code in labels.tolist()]


def _version(
    raw: RawImages, rows: Mapping[PartName, Integers], features: Pixels, target: Classes
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
