"""Images with a label each: read from the files of the MNIST family, divided, and prepared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.data import StratifiedSplit
from trainwright.contract.images import ImageData
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.core.hashing import hash_bytes, hash_value
from trainwright.data.idx import IdxFile, read_idx
from trainwright.data.pixels import Pixels, fit_pixels
from trainwright.data.prepared import Prepared
from trainwright.data.reading import DataFacts
from trainwright.data.split_report import report_split
from trainwright.data.splits import TRAIN, Shares, divide
from trainwright.data.table import Bytes, ImageInputs, Integers, Part, PartName
from trainwright.data.target import NO_POSITIVE, Classes
from trainwright.data.target_column import TargetFacts

LABEL = "label"
"""The column with the class of each image, in the frames of its parts."""

_GIVEN = frozenset({"test"})
_PREFIXES: tuple[tuple[PartName, str], ...] = (("train", "train"), ("test", "t10k"))


@final
@dataclass(frozen=True, slots=True)
class RawImages:
    """Images before they are divided: uint8 [N, C, H, W] and label codes int64 [N] of the training
    and the test files; `names` are those of the labels."""

    images: Mapping[PartName, Bytes]
    labels: Mapping[PartName, Integers]
    names: tuple[str, ...]
    facts: DataFacts
    notes: tuple[str, ...] = ()


def read_images(section: ImageData, folder: Path) -> RawImages:
    """Read the four files of the folder that the section names.

    Raises:
        DataMistake: every problem of every file at once.
    """
    files: dict[tuple[PartName, str], IdxFile] = {}
    problems: list[Problem] = []
    for part, prefix in _PREFIXES:
        for what, dimensions in (("images", 3), ("labels", 1)):
            written = _find(folder, section.path, f"{prefix}-{what}-idx{dimensions}-ubyte")
            try:
                files[part, what] = read_idx(folder / written, written, dimensions)
            except Mistake as mistake:
                problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    images = {part: files[part, "images"].values[:, None] for part, _ in _PREFIXES}
    labels = {part: files[part, "labels"].values.astype(np.int64) for part, _ in _PREFIXES}
    problems = _problems(section, files, labels)
    if problems:
        raise DataMistake(problems)
    names = section.classes or tuple(str(code) for code in range(_codes(labels)))
    counts = np.bincount(labels["train"], minlength=len(names))
    rows = {part: len(labels[part]) for part in labels}
    facts = DataFacts(
        rows=sum(rows.values()),
        columns=(),
        target=TargetFacts(
            "classes", dict(zip(names, map(int, counts), strict=True)), len(names), missing=0
        ),
        files=tuple(file.version for file in files.values()),
        given=_GIVEN,
        part_rows={str(part): count for part, count in rows.items()},
    )
    return RawImages(images, labels, names, facts)


def read_labelled(file: Path) -> tuple[Bytes, Integers]:
    """Images uint8 [N, 1, H, W] of one IDX file, and labels [N] from the file of labels beside it,
    which has the same name with `labels-idx1` for `images-idx3`.

    Raises:
        DataMistake: one of them cannot be read, or they are of different lengths.
    """
    images = read_idx(file, str(file), 3, "DATA")
    name = file.name.replace("images-idx3", "labels-idx1")
    beside = file.with_name(name)
    if name == file.name or not beside.is_file():
        raise DataMistake(
            Problem(
                "there is no file of labels for these images",
                path="DATA",
                found=file.name,
                expected="a name with images-idx3, and a file with labels-idx1 beside it",
                fix="put the labels beside the images",
            )
        )
    labels = read_idx(beside, str(beside), 1, "DATA")
    if len(images.values) != len(labels.values):
        raise DataMistake(_lengths(images, labels))
    return images.values[:, None], labels.values.astype(np.int64)


def prepare_images(raw: RawImages, section: ImageData, seed: int) -> Prepared:
    """Divide validation images off, and fit mean and deviation on the training images alone."""
    split = StratifiedSplit(kind="stratified", validation=section.validation)
    frame = pl.DataFrame({LABEL: _named(raw.labels["train"], raw.names)})
    codes = divide(frame, LABEL, split, Shares.of(split, _GIVEN), seed)
    rows: dict[PartName, Integers] = {
        "train": np.flatnonzero(codes == TRAIN),
        "validation": np.flatnonzero(codes != TRAIN),
        "test": np.arange(len(raw.labels["test"])),
    }
    target = Classes(LABEL, raw.names, _positive(raw))
    parts = {
        part: image_part(
            raw.images["test" if part == "test" else "train"][rows[part]],
            raw.labels["test" if part == "test" else "train"][rows[part]],
            target,
            part,
            rows[part],
        )
        for part in rows
    }
    features = fit_pixels(_pixels(parts["train"]))
    compared = {part: _comparable(parts[part]) for part in parts}
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report_split(compared, split, LABEL, (LABEL, "pixels"), made=True),
        version=_version(raw, rows, features, target),
    )


def image_part(
    images: Bytes, labels: Integers, target: Classes, name: PartName, rows: Integers
) -> Part:
    """Images [N, C, H, W] with label codes [N] as a part; its frame has the labels alone."""
    frame = pl.DataFrame({LABEL: _named(labels, target.names)})
    return Part(name, frame, ImageInputs(images), labels, rows, np.arange(len(labels)))


def _find(folder: Path, path: str, name: str) -> str:
    """The file as it is there: plain, or with `.gz`."""
    plain = f"{path.rstrip('/')}/{name}"
    return plain if (folder / plain).is_file() else f"{plain}.gz"


def _problems(
    section: ImageData,
    files: Mapping[tuple[PartName, str], IdxFile],
    labels: Mapping[PartName, Integers],
) -> list[Problem]:
    lengths = [
        _lengths(files[part, "images"], files[part, "labels"])
        for part, _ in _PREFIXES
        if len(files[part, "images"].values) != len(labels[part])
    ]
    return [*lengths, *_other_sizes(files), *_unnamed(section, labels), *_absent(files, labels)]


def _other_sizes(files: Mapping[tuple[PartName, str], IdxFile]) -> Iterator[Problem]:
    sizes = {part: files[part, "images"].values.shape[1:] for part, _ in _PREFIXES}
    if sizes["train"] != sizes["test"]:
        yield Problem(
            "test images have another size than training images",
            path="data.path",
            found=" x ".join(map(str, sizes["test"])),
            expected=" x ".join(map(str, sizes["train"])),
            fix="scale the images to one size",
            place=Place(files["test", "images"].version.path),
        )


def _unnamed(section: ImageData, labels: Mapping[PartName, Integers]) -> Iterator[Problem]:
    count = _codes(labels)
    if section.classes and count > len(section.classes):
        yield Problem(
            "there are labels without a name",
            path="data.classes",
            found=f"{len(section.classes)} names, labels up to {count - 1}",
            expected=f"{count} names",
            fix="name every label, or remove classes",
        )


def _absent(
    files: Mapping[tuple[PartName, str], IdxFile], labels: Mapping[PartName, Integers]
) -> Iterator[Problem]:
    in_training = {int(code) for code in np.unique(labels["train"])}
    absent = sorted({*range(_codes(labels))} - in_training)
    if absent:
        yield Problem(
            "labels that no training image has",
            path="data.path",
            found=", ".join(map(str, absent[:10])),
            expected="every label from 0 on among the training images",
            fix="number the labels without gaps",
            place=Place(files["train", "labels"].version.path),
        )


def _codes(labels: Mapping[PartName, Integers]) -> int:
    return max(int(codes.max()) for codes in labels.values()) + 1


def _lengths(images: IdxFile, labels: IdxFile) -> Problem:
    return Problem(
        "images and labels are not of one number",
        path="data.path",
        found=f"{len(images.values):,} images, {len(labels.values):,} labels",
        expected="a label for each image",
        fix="name files that belong together",
        place=Place(labels.version.path),
    )


def _positive(raw: RawImages) -> int:
    counts = np.bincount(raw.labels["train"])
    return int(np.argmin(counts)) if len(counts) == 2 else NO_POSITIVE


def _named(labels: Integers, names: tuple[str, ...]) -> list[str]:
    return [names[code] for code in labels.tolist()]


def _pixels(part: Part) -> Bytes:
    assert isinstance(part.inputs, ImageInputs)
    return part.inputs.pixels


def _comparable(part: Part) -> pl.DataFrame:
    """Label and bytes of each image, for counting duplicates."""
    return part.frame.with_columns(pixels=pl.Series([image.tobytes() for image in _pixels(part)]))


def _version(
    raw: RawImages, rows: Mapping[PartName, Integers], features: Pixels, target: Classes
) -> str:
    return hash_value(
        {
            "scheme": 1,
            "files": [file.sha256 for file in raw.facts.files],
            "split": {part: hash_bytes(r.astype("<i8").tobytes()) for part, r in rows.items()},
            "features": features.to_json(),
            "target": target.to_json(),
        }
    )
