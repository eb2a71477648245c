"""Image files of a contract as arrays and label codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageData
from trainwright.core.errors import DataMistake, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import quoted
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.class_folders import ClassFolders
from trainwright.data.images.decoded_cache import DecodedImages, keep_images
from trainwright.data.images.raw_images import RawImages, UnreadableImages, facts_of
from trainwright.data.images.resolve_source import open_parts
from trainwright.data.sources.cache import open_cache


def read_pictures(section: ImageData, folder: Path, most: int = sys.maxsize) -> RawImages:
    """Read the images of every part, or find them in the cache; of a source of more than `most` as
    many are decoded. Where images have any number of labels, each different set of them is a name.

    Raises:
        DataMistake: every problem of a part at once. StorageFailed: the cache's disk.
    """
    cache = open_cache(section.decoding.cache, folder)
    rule = Rule.of(section.decoding)
    kept: dict[PartName, DecodedImages] = {}
    problems: list[Problem] = []
    for part, source in open_parts(section, folder, cache).items():
        if section.labels.separator and isinstance(source, ClassFolders):
            problems.append(_one_class_each(source))
            continue
        try:
            kept[part] = keep_images(source, rule, section.decoding.corrupt, cache, most)
            rule = replace(rule, wide=kept[part].rule.wide)
        except DataMistake as mistake:
            problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    _check_sizes(kept)
    cells = _cells(kept, section)
    separator = section.labels.separator
    told = pl.concat(cells.values()) if separator else cells["train"]
    names = class_names(section.classes, told)
    labels = {part: label_codes(one, names) for part, one in cells.items()}
    if not separator:
        _check_present(labels, names)
    facts = facts_of(
        labels, names, tuple(replace(one.version, part=part) for part, one in kept.items())
    )
    if separator:
        from trainwright.data.images.image_table import count_of_labels

        count = count_of_labels(cells["train"], separator)
        facts = replace(facts, target=TargetFacts("labels", {}, len(names), 0, "text", count))
    return RawImages(
        images={part: one.inputs for part, one in kept.items()},
        labels=labels,
        names=names,
        facts=facts,
        notes=tuple(_notes(kept)),
        records={part: one.records for part, one in kept.items()},
        rule=kept["train"].rule,
        left_out={
            part: UnreadableImages(one.dropped, one.dropped_names) for part, one in kept.items()
        },
    )


def _one_class_each(source: ClassFolders) -> Problem:
    return Problem(
        "an image in a folder has the one label that the folder is called by",
        path="data.labels.separator",
        found=f"{source.written}, a folder with a folder for each class",
        expected="a table of images or tar shards",
        fix="name a table of images in data.path, or remove data.labels",
    )


def _cells(kept: Mapping[PartName, DecodedImages], section: ImageData) -> dict[PartName, pl.Series]:
    """The label of each image, or its labels in one order."""
    found = {part: one.records["label"] for part, one in kept.items()}
    if not section.labels.separator:
        return found
    # Imported here: few images have several labels.
    from trainwright.data.images.image_table import tidy_labels

    return {
        part: tidy_labels(cells, kept[part].records["name"], section.labels, "data.fields.label")
        for part, cells in found.items()
    }


def class_names(written: tuple[str, ...], labels: pl.Series) -> tuple[str, ...]:
    """The classes in the order of their codes: as written, else the labels that occur, numbers by
    size and other names by the alphabet."""
    if written:
        return written
    found = labels.unique().to_list()
    if all(name.isdecimal() for name in found):
        return tuple(sorted(found, key=int))
    return tuple(sorted(found))


def label_codes(labels: pl.Series, names: tuple[str, ...]) -> Integers:
    """The code of each label, int64 [N]: its place among the names, or its own number where labels
    are numbers that the names name.

    Raises:
        DataMistake: a label that no name stands for.
    """
    codes = {name: code for code, name in enumerate(names)}
    numbers = {str(code): code for code in range(len(names))}
    found = labels.unique().to_list()
    known = codes if any(label in codes for label in found) else numbers
    strange = sorted(label for label in found if label not in known)
    if strange:
        raise DataMistake(
            Problem(
                "labels that are no class",
                path="data.classes",
                found=quoted(strange),
                expected=quoted(list(names)),
                fix="name every class in data.classes, or mend the labels",
            )
        )
    return labels.replace_strict(known, return_dtype=pl.Int64).to_numpy()


def _check_sizes(kept: Mapping[PartName, DecodedImages]) -> None:
    sizes = {part: one.inputs.size for part, one in kept.items()}
    if len(set(sizes.values())) > 1:
        raise DataMistake(
            Problem(
                "the images of the parts are of different sizes",
                path="data.decoding.size",
                found="; ".join(f"{part} {h} x {w}" for part, (_, h, w) in sizes.items()),
                expected="one height and width",
                fix="set data.decoding.size",
            )
        )


def _check_present(labels: Mapping[PartName, Integers], names: tuple[str, ...]) -> None:
    absent = sorted({*range(len(names))} - {int(code) for code in np.unique(labels["train"])})
    if absent or len(names) < 2:
        raise DataMistake(
            Problem(
                "classes that no training image has" if absent else "there is only one class",
                path="data.classes" if absent else "data.path",
                found=quoted([names[code] for code in absent] or list(names)),
                expected="at least two classes with training images",
                fix="add images, or remove the class",
            )
        )


def _notes(kept: Mapping[PartName, DecodedImages]) -> list[str]:
    skipped = [
        f"{many(one.dropped, 'unreadable image')} of {one.version.path} skipped "
        f"({quoted(list(one.dropped_names))})"
        for one in kept.values()
        if one.dropped
    ]
    return [*skipped, *(note for one in kept.values() for note in one.notes)]
