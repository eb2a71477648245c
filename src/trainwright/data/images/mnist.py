"""The files of the MNIST family: images and labels of training and test in four IDX files, or those
of training alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainwright.contract.sections.data.images import ImageData
from trainwright.contract.sections.section import Section
from trainwright.core.errors import DataMistake, Mistake, Place, Problem
from trainwright.data.base.table import ImageInputs, Integers, PartName
from trainwright.data.images.idx import IdxFile, read_idx
from trainwright.data.images.raw_images import RawImages, facts_of

_PREFIXES: tuple[tuple[PartName, str], ...] = (("train", "train"), ("test", "t10k"))


def read_mnist(section: ImageData, folder: Path) -> RawImages:
    """Read the four files of the folder that the section names. Without the two of the test, all
    parts are cut from the training images.

    Raises:
        DataMistake: every problem of every file at once.
    """
    files: dict[tuple[PartName, str], IdxFile] = {}
    problems = list(_without_effect(section))
    prefixes = _prefixes(folder / section.path)
    for part, prefix in prefixes:
        for what, dimensions in (("images", 3), ("labels", 1)):
            written = _find(folder, section.path, f"{prefix}-{what}-idx{dimensions}-ubyte")
            try:
                files[part, what] = read_idx(folder / written, written, dimensions)
            except Mistake as mistake:
                problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    images = {part: ImageInputs.of(files[part, "images"].values[:, None]) for part, _ in prefixes}
    labels = {part: files[part, "labels"].values.astype(np.int64) for part, _ in prefixes}
    problems = _problems(section, files, labels)
    if problems:
        raise DataMistake(problems)
    names = section.classes or tuple(str(code) for code in range(_codes(labels)))
    versions = tuple(replace(file.version, part=part) for (part, _), file in files.items())
    facts = facts_of(labels, names, versions)
    return RawImages(images, labels, names, facts)


def read_labelled(file: Path) -> tuple[IdxFile, Integers]:
    """Images [N, H, W] of one IDX file, and labels [N] from the file of labels beside it, which has
    the same name with `labels-idx1` for `images-idx3`, with or without `.gz`.

    Raises:
        DataMistake: one of them cannot be read, or they are of different lengths.
    """
    images = read_idx(file, str(file), 3, "DATA")
    plain = file.name.removesuffix(".gz").replace("images-idx3", "labels-idx1")
    beside = file.parent / _find(file.parent, ".", plain)
    if "images-idx3" not in file.name or not beside.is_file():
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
    return images, labels.values.astype(np.int64)


def _prefixes(folder: Path) -> tuple[tuple[PartName, str], ...]:
    """The parts that have files here, by the beginning of their names."""
    return tuple(
        (part, prefix)
        for part, prefix in _PREFIXES
        if part == "train" or any(folder.glob(f"{prefix}-*-idx[13]-ubyte*"))
    )


def _find(folder: Path, path: str, name: str) -> str:
    """The existing file: plain, or with `.gz`."""
    plain = f"{path.rstrip('/')}/{name}"
    return plain if (folder / plain).is_file() else f"{plain}.gz"


def _problems(
    section: ImageData,
    files: Mapping[tuple[PartName, str], IdxFile],
    labels: Mapping[PartName, Integers],
) -> list[Problem]:
    lengths = [
        _lengths(files[part, "images"], files[part, "labels"])
        for part in labels
        if len(files[part, "images"].values) != len(labels[part])
    ]
    absent = _absent(section, files, labels)
    return [*lengths, *_other_sizes(files), *_unnamed(section, labels), *absent]


def _without_effect(section: ImageData) -> Iterator[Problem]:
    """What is written but could change nothing: where the test images are, what a label is and how
    large the images are stand in the files themselves."""
    usual = ImageData(kind="images", path=section.path).for_size(())
    for name in ("val_path", "test_path", "fields", "labels", "decoding"):
        written: object = getattr(section.for_size(()), name)
        if written == getattr(usual, name):
            continue
        found = written
        if isinstance(written, Section):
            found = written.model_dump(exclude_defaults=True)
        yield Problem(
            "this has no effect on the IDX files of the MNIST family",
            path=f"data.{name}",
            found=str(found),
            expected="the IDX files alone",
            fix="remove it, or name a folder of images, a table or shards in data.path",
            place=Place(section.path),
        )


def _other_sizes(files: Mapping[tuple[PartName, str], IdxFile]) -> Iterator[Problem]:
    sizes = {
        part: file.values.shape[1:] for (part, what), file in files.items() if what == "images"
    }
    if sizes["train"] != sizes.get("test", sizes["train"]):
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
    section: ImageData,
    files: Mapping[tuple[PartName, str], IdxFile],
    labels: Mapping[PartName, Integers],
) -> Iterator[Problem]:
    in_training = {int(code) for code in np.unique(labels["train"])}
    absent = sorted({*range(max(_codes(labels), len(section.classes)))} - in_training)
    if absent:
        yield Problem(
            "labels that no training image has",
            path="data.path",
            found=", ".join(map(str, absent[:10])),
            expected="every label from 0 on among the training images",
            fix="number the labels without gaps, or remove their names from data.classes",
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
