"""First contract for images, with the reason of every choice as a comment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageData, ImageFields
from trainwright.contract.sections.data.sources import USUAL
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.core.limits import MOST_IMAGE_PIXELS
from trainwright.data.columns.column_kinds import name_tokens
from trainwright.data.formats.parquet_sizes import check_parquet
from trainwright.data.images.class_folders import LocalTree, image_files, part_folders
from trainwright.data.images.decode import SUFFIXES, ImageFault, look
from trainwright.data.images.image_table import names_table
from trainwright.data.images.mnist import read_mnist
from trainwright.data.images.resolve_source import holds_idx, is_shard, open_parts
from trainwright.data.sources.cache import open_cache
from trainwright.data.sources.find_source import read_source
from trainwright.data.statistics.coded_column import UNIT_WORDS
from trainwright.planner.init.yaml_lines import comment, scalar
from trainwright.planner.resolve.mirroring import Samples

_LARGEST = 224
_STEP = 8
_RARE = 0.5
_LOOKED_AT = 50
_PATHS = 0.9


@final
@dataclass(frozen=True, slots=True)
class _Seen:
    """Images per class, their sizes, the number of unreadable ones, and small copies of some."""

    classes: Counter[str]
    sizes: Counter[tuple[int, int]]
    grey: bool
    unreadable: int
    samples: Samples


def are_images(data: Path) -> bool:
    """Does a folder, a file or a pattern of shards contain images: folders of them, shards, IDX
    files, or a table with a column that names or contains them?"""
    if data.is_dir():
        below = [child for child in data.iterdir() if child.is_dir()]
        return (
            holds_idx(data)
            or bool(part_folders(LocalTree(data).folders()))
            or any(is_shard(child.name) for child in data.iterdir())
            or any(next(image_files(child), None) is not None for child in below)
        )
    if is_shard(data.name):
        return True
    return names_table(data.name) and data.is_file() and bool(_image_column(_head(data)))


def propose_images(data: Path, target: str, contract_folder: Path) -> str:
    """Read every image's header and propose a contract, to be written into `contract_folder`.

    Raises:
        DataMistake: not images that can be used for training.
    """
    at = data.absolute()
    written = Path(relpath(at.resolve(), contract_folder.resolve())).as_posix()
    fields = _fields(at, target)
    section = ImageData(kind="images", path=at.name, fields=fields)
    seen = _seen_idx(section, at.parent) if holds_idx(at) else _seen(section, at.parent)
    _check_classes(seen, written)
    count = sum(seen.classes.values())
    shown = comment(written)
    lines = [
        f"# What a model for images must prove, proposed from {shown}: {count:,} images of "
        f"{len(seen.classes)} classes.",
        "task: classification  # the label of an image is a class",
        "data:",
        "  kind: images",
        f"  path: {scalar(written)}",
        *_field_lines(fields),
        *_decoding_lines(seen, holds_idx(at)),
        "  validation: 0.15  # steers the training; unused where val stands apart",
        "  test: 0.15  # opened once, for the verdict; unused where test stands apart",
        _augment_line(seen),
        "model: {kind: resnet, width: 32, blocks: [1, 1, 1], stem: half}  # small; or linear",
        "metric:",
        f"  name: {_metric(seen)}",
        "  # target: 0.9; by default: better than every baseline",
        "slices: [{column: label}]  # tells each class; {column: label, floor: 0.5} demands it",
        "seed: 0  # the same number gives the same model; split_seed draws the parts",
    ]
    return "\n".join(lines) + "\n"


def _augment_line(seen: _Seen) -> str:
    moved = _moved(seen)
    if seen.samples.keep_their_class():
        reason = "remove flip where a mirrored image means something else (digits, text)"
        return f"  augment: {{flip: true, crop: {moved}}}  # {reason}"
    return f"  augment: {{crop: {moved}}}  # no flip: mirrored images look like other classes"


def _check_classes(seen: _Seen, written: str) -> None:
    if len(seen.classes) > 1:
        return
    only = next(iter(seen.classes), "")
    raise DataMistake(
        Problem(
            "all images have one class",
            path="DATA",
            found=f"{sum(seen.classes.values()):,} images of {only!r}",
            expected="images of two classes or more: a folder of each, or a table that names them",
            fix="name the folder above it, if the other classes have folders there",
            place=Place(written),
        )
    )


def _seen(section: ImageData, folder: Path) -> _Seen:
    classes: Counter[str] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    grey, unreadable, samples = True, 0, Samples()
    tables = open_cache(section.decoding.cache, folder)
    for source in open_parts(section, folder, tables).values():
        for record in source.records():
            data, label = record.data, record.label
            header = data if isinstance(data, ImageFault) else look(data, MOST_IMAGE_PIXELS)
            if isinstance(header, ImageFault) or isinstance(data, ImageFault):
                unreadable += 1
                continue
            samples.add(label, data, header)
            classes[label] += 1
            sizes[header.height, header.width] += 1
            grey = grey and header.grey
    if not sizes:
        raise DataMistake(
            Problem(
                "no image can be read",
                path="DATA",
                found=f"{unreadable:,} that cannot",
                expected=f"image files ({', '.join(SUFFIXES)})",
                fix="look at the files",
                place=Place(str(section.path)),
            )
        )
    return _Seen(classes, sizes, grey, unreadable, samples)


def _seen_idx(section: ImageData, folder: Path) -> _Seen:
    raw = read_mnist(section, folder)
    _, height, width = raw.images["train"].size
    samples = Samples()
    samples.add_pixels(raw.images["train"], raw.labels["train"])
    sizes = Counter({(height, width): raw.facts.rows})
    return _Seen(Counter(raw.facts.target.classes), sizes, True, 0, samples)


def _fields(at: Path, target: str) -> ImageFields:
    if names_table(at.name) and at.is_file():
        head = _head(at)
        label = target or ("label" if "label" in head.columns else "")
        if not label:
            raise DataMistake(
                Problem(
                    "no column is named that holds the classes",
                    path="--target",
                    expected=f"one of: {', '.join(head.columns[:12])}",
                    fix="add --target COLUMN",
                )
            )
        return ImageFields(image=_image_column(head), label=label, group=_group(head, label))
    return ImageFields(label=target) if target else ImageFields()


def _head(table: Path) -> pl.DataFrame:
    """All rows of a text table, or the first ones of a Parquet file, which may contain bytes."""
    if table.suffix.lower() in (".parquet", ".pq"):
        try:
            check_parquet(table, table.name, USUAL)
            return pl.scan_parquet(table).head(_LOOKED_AT).collect()
        except (pl.exceptions.PolarsError, OSError, DataMistake):
            return pl.DataFrame()
    try:
        return read_source(table.name, table.parent, "DATA").frame
    except DataMistake:
        # Not a table of images then; reading it as another kind reports what is wrong with it.
        return pl.DataFrame()


def _image_column(head: pl.DataFrame) -> str:
    """First column with image bytes, or with names of which nearly all have an image suffix; empty
    if there is none."""
    for series in head.get_columns():
        fields = series.dtype.fields if isinstance(series.dtype, pl.Struct) else ()
        if any(field.name == "bytes" for field in fields):
            series = series.struct.field("bytes").alias(series.name)
        if series.dtype not in (pl.Binary, pl.String):
            continue
        shown = series.drop_nulls().head(_LOOKED_AT).to_list()
        if not shown:
            continue
        if all(isinstance(one, bytes) for one in shown):
            if not isinstance(look(shown[0], MOST_IMAGE_PIXELS), ImageFault):
                return series.name
        elif all(isinstance(one, str) for one in shown):
            ends = [Path(str(one)).suffix.lower() in SUFFIXES for one in shown]
            if sum(ends) >= _PATHS * len(ends):
                return series.name
    return ""


def _group(head: pl.DataFrame, label: str) -> str:
    for series in head.get_columns():
        several = 1 < series.n_unique() <= head.height / 2
        if series.name != label and name_tokens(series.name) & UNIT_WORDS and several:
            return series.name
    return ""


def _field_lines(fields: ImageFields) -> list[str]:
    usual = ImageFields()
    told = {
        name: getattr(fields, name)
        for name in ("image", "label", "group")
        if getattr(fields, name) != getattr(usual, name)
    }
    if not told:
        return []
    inside = ", ".join(f"{name}: {scalar(value)}" for name, value in told.items())
    reason = "images of one group fall on one side" if fields.group else "where they stand"
    return [f"  fields: {{{inside}}}  # {reason}"]


def _decoding_lines(seen: _Seen, is_idx: bool) -> list[str]:
    if is_idx:
        return []
    sizes = list(seen.sizes)
    corrupt = ""
    if seen.unreadable:
        images = many(seen.unreadable, "image")
        corrupt = f"  # {images} cannot be read: corrupt: drop leaves such out"
    channels = "grey" if seen.grey else "rgb"
    if len(sizes) == 1 and max(sizes[0]) <= _LARGEST:
        height, width = sizes[0]
        reason = f"all images are {height} x {width}"
        lines = [f"  decoding: {{size: [{height}, {width}], channels: {channels}}}  # {reason}"]
    else:
        height, width = _proposed_size(seen)
        by_area = sorted(sizes, key=lambda one: one[0] * one[1])
        low, high = (f"{one[0]} x {one[1]}" for one in (by_area[0], by_area[-1]))
        reason = f"near the median of images from {low} to {high}, at most {_LARGEST}"
        lines = [f"  decoding: {{size: [{height}, {width}], channels: {channels}}}  # {reason}"]
    return [*lines, corrupt] if corrupt else lines


def _proposed_size(seen: _Seen) -> tuple[int, int]:
    sizes = np.array(list(seen.sizes.elements()), dtype=np.float64)
    median = np.median(sizes, axis=0)
    median *= min(1.0, _LARGEST / median.max())
    height, width = (max(_STEP, round(float(side) / _STEP) * _STEP) for side in median)
    return height, width


def _moved(seen: _Seen) -> int:
    height, width = _proposed_size(seen)
    return max(1, min(height, width) // 12)


def _metric(seen: _Seen) -> str:
    rarest, commonest = min(seen.classes.values()), max(seen.classes.values())
    if rarest < _RARE * commonest:
        return f"f1_macro  # every class counts alike: the rarest has {many(rarest, 'image')}"
    return "accuracy  # the classes are of similar size"
