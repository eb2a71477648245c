"""Images with a label each: read, divided, and prepared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.data import GroupSplit, Split, StratifiedSplit
from trainwright.contract.images import ImageData
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.image_files import read_pictures
from trainwright.data.mnist import read_mnist
from trainwright.data.pictures.opening import holds_idx
from trainwright.data.pixels import Pixels, fit_pixels
from trainwright.data.prepared import Prepared
from trainwright.data.raw_images import RawImages
from trainwright.data.split_report import check_crossing, report_split
from trainwright.data.splits import PARTS, Shares, divide, group_codes
from trainwright.data.table import ImageInputs, Integers, Part, PartName
from trainwright.data.target import NO_POSITIVE, Classes

LABEL = "label"
"""The column with the class of each image, in the frames of its parts."""

_GROUP = "group"
_PIXELS = "pixels"


def read_images(section: ImageData, folder: Path) -> RawImages:
    """Read the images that the section names.

    Raises:
        DataMistake: every problem that could be found at once.
    """
    if holds_idx(folder / section.path):
        return read_mnist(section, folder)
    return read_pictures(section, folder)


def prepare_images(raw: RawImages, section: ImageData, seed: int) -> Prepared:
    """Divide off the parts that do not stand apart, and fit mean and deviation on the training
    images alone.

    Raises:
        DataMistake: the images cannot be divided so, or groups cross parts that stand apart.
    """
    split = split_of(section)
    grouped = bool(section.fields.group)
    frame = _frame(raw, "train", grouped=grouped)
    shares = Shares.of(split, raw.facts.given)
    codes = divide(frame, LABEL, split, shares, seed)
    rows: dict[PartName, Integers] = {
        part: np.arange(len(raw.labels[part]))
        if part in raw.facts.given
        else np.flatnonzero(codes == code)
        for code, part in enumerate(PARTS)
    }
    target = Classes(LABEL, raw.names, _positive(raw))
    parts = {part: _part(raw, part, rows[part], grouped=grouped) for part in rows}
    inputs = {part: raw.images[_source(raw, part)].take(rows[part]) for part in rows}
    features = fit_pixels(inputs["train"], raw.rule)
    compared = {
        part: parts[part].frame.with_columns(pl.Series(_PIXELS, inputs[part].hashes()))
        for part in rows
    }
    made = len(raw.facts.given) < len(PARTS) - 1
    report = report_split(compared, split, LABEL, (LABEL, _PIXELS), made=made)
    check_crossing(report, split, "data.fields.group", section.fields.group)
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report,
        version=_version(raw, rows, features, target),
    )


def split_of(section: ImageData) -> Split:
    """How the images are divided: within each class, or by whole groups where they have some."""
    validation, test = section.validation, section.test
    if section.fields.group:
        return GroupSplit(kind="group", column=_GROUP, validation=validation, test=test)
    return StratifiedSplit(kind="stratified", validation=validation, test=test)


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
    counts = np.bincount(raw.labels["train"])
    return int(np.argmin(counts)) if len(counts) == 2 else NO_POSITIVE


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
