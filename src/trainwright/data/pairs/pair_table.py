"""Tables of image-text pairs: their rows and images, before the split."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.pairs import PictureTable
from trainwright.contract.sections.data.sources import USUAL
from trainwright.core.errors import DataMistake, Place, Problem
from trainwright.core.formatting import many
from trainwright.data.base.inputs import Integers, PartName
from trainwright.data.base.messages import some
from trainwright.data.columns.retrieval_targets import caption_codes
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.encoders.pixel_statistics import Rule
from trainwright.data.images.decoded_cache import DecodedImages, keep_images
from trainwright.data.images.image_table import names_table
from trainwright.data.images.raw_images import PictureSource, RawImages, Record, UnreadableImages
from trainwright.data.images.resolve_source import open_source
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.cache import Tables, open_cache
from trainwright.data.sources.find_source import absent_column, read_source

WORDS = "caption_words"
"""Column that is made of the captions: their words, to slice by."""


@final
@dataclass(frozen=True, slots=True)
class RawPairs(Raw):
    """Pairs before they are divided: the images of the training table and of the parts that stand
    apart, and the rows of the tables beside them. `codes` int64 [N, 2] are equal where
    images, or captions, of any part are equal."""

    pictures: RawImages
    frames: Mapping[PartName, pl.DataFrame]
    codes: Mapping[PartName, Integers]
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The pairs that are skipped, and those that are no negatives of each other."""
        skipped = [("skipped", note) for note in self.notes]
        every = np.concatenate(list(self.codes.values()))
        images, captions = (shared_rows(every[:, side]) for side in (0, 1))
        if not (images or captions):
            return tuple(skipped)
        said = f"{many(images, 'pair')} share an image and {captions:,} a caption with another"
        return (*skipped, ("equal", f"{said}: these are no negatives of each other"))

    @property
    def decoded_rows(self) -> int:
        """Pairs whose image was decoded."""
        return self.pictures.decoded_rows


def shared_rows(codes: Integers) -> int:
    """Rows whose code another row has, too."""
    _, member, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    return int((sizes[member] > 1).sum())


@final
class NumberedImages:
    """The images of a table with the numbers of their rows, from 0, for labels."""

    def __init__(self, source: PictureSource) -> None:
        self.written = source.written
        self._source = source

    def records(self) -> Iterator[Record]:
        """Row by row."""
        for row, record in enumerate(self._source.records()):
            yield record._replace(label=str(row))


class KeptPairs(NamedTuple):
    """Pairs of a table whose images could be read: the decoded images, the rows of the table, and
    their positions in it."""

    images: DecodedImages
    frame: pl.DataFrame
    rows: Integers


def read_pairs(section: PictureTable, folder: Path, most: int = sys.maxsize) -> RawPairs:
    """Read the tables of a section, and the images of their rows.

    Raises:
        DataMistake: every problem of a part at once. StorageFailed: the cache's disk.
    """
    cache = open_cache(section.decoding.cache, folder)
    rule = Rule.of(section.decoding)
    named: tuple[tuple[PartName, str, str], ...] = (
        ("train", section.path, "data.path"),
        ("validation", section.val_path, "data.val_path"),
        ("test", section.test_path, "data.test_path"),
    )
    columns = PairColumns(section.image, section.caption, section.group, section.root)
    kept: dict[PartName, KeptPairs] = {}
    problems: list[Problem] = []
    for part, written, path in named:
        if written:
            try:
                asked = PairRequest(written, folder, path, columns, cache)
                kept[part] = keep_pairs(
                    asked, rule, drops=section.decoding.corrupt == "drop", most=most
                )
                rule = replace(rule, wide=kept[part].images.rule.wide)
            except DataMistake as mistake:
                problems += mistake.problems
    if problems:
        raise DataMistake(problems)
    _check_sizes(kept)
    return _raw(kept, section.caption)


class PairColumns(NamedTuple):
    """The columns of image, caption and group, which is empty for none, and the folder that image
    paths start from."""

    image: str
    caption: str
    group: str
    root: str = ""


class PairRequest(NamedTuple):
    """A table as the contract or a command names it, relative to a folder, the contract path to
    blame, and the columns of the pairs."""

    written: str
    folder: Path
    path: str
    columns: PairColumns
    cache: Tables


def keep_pairs(
    asked: PairRequest, rule: Rule, *, drops: bool, most: int = sys.maxsize
) -> KeptPairs:
    """The pairs of a table, whose images are decoded or found in the cache.

    Raises:
        DataMistake: it is no table, lacks a column, or a pair has no image or no caption.
    """
    if not names_table(asked.written):
        raise DataMistake(
            Problem(
                "image-text pairs stand in a table",
                path=asked.path,
                found=asked.written,
                expected="a table (.csv, .parquet, ...) with columns of images and captions",
                fix="write such a table, and name it",
                place=Place(asked.written),
            )
        )
    frame = _read_rows(asked)
    fields = ImageFields(image=asked.columns.image, root=asked.columns.root)
    source = open_source(
        asked.written, asked.folder, fields, asked.path, asked.cache, labelled=False
    )
    try:
        images = keep_images(
            NumberedImages(source), rule, "drop" if drops else "fail", asked.cache, most
        )
    except DataMistake as mistake:
        raise DataMistake(map(_named_here, mistake.problems)) from mistake
    rows = images.records["label"].cast(pl.Int64).to_numpy()
    return KeptPairs(images, frame[rows], rows)


def _named_here(problem: Problem) -> Problem:
    """A problem of a table of images, whose columns are keys of `data` here."""
    path, fix = (text.replace("data.fields.", "data.") for text in (problem.path, problem.fix))
    return replace(problem, path=path, fix=fix)


def _read_rows(asked: PairRequest) -> pl.DataFrame:
    """The rows with their captions as text, and without bytes of images."""
    source = read_source(asked.written, asked.folder, asked.path, USUAL)
    frame, columns = source.frame, asked.columns
    wanted = [("image", columns.image), ("caption", columns.caption), ("group", columns.group)]
    problems = [
        absent_column(f"data.{field}", name, frame.columns, Place(asked.written))
        for field, name in wanted
        if name and name not in frame.columns
    ]
    if problems:
        raise DataMistake(problems)
    texts = frame[columns.caption].cast(pl.String)
    empty = texts.fill_null("").str.strip_chars() == ""
    if empty.any():
        rows = np.flatnonzero(empty.to_numpy())
        raise DataMistake(
            Problem(
                f"{many(len(rows), 'pair has', 'pairs have')} no caption",
                path="data.caption",
                found=f"an empty {columns.caption!r} in row {some((rows + 1).tolist())}",
                expected="a text in every row",
                fix="add the captions, or remove these rows",
                place=Place(asked.written),
            )
        )
    plain = [name for name in frame.columns if not frame[name].dtype.is_nested()]
    plain = [name for name in plain if frame[name].dtype != pl.Binary]
    words = texts.str.split(" ").list.len().cast(pl.Int64)
    return frame.select(plain).with_columns(texts.alias(columns.caption), words.alias(WORDS))


def _check_sizes(kept: dict[PartName, KeptPairs]) -> None:
    sizes = {part: one.images.inputs.size for part, one in kept.items()}
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


def _raw(kept: dict[PartName, KeptPairs], caption: str) -> RawPairs:
    counts = {part: len(one.frame) for part, one in kept.items()}
    files = tuple(replace(one.images.version, part=part) for part, one in kept.items())
    facts = DataFacts(
        rows=sum(counts.values()),
        columns=(),
        target=TargetFacts("tokens", {}, 0, missing=0),
        files=files,
        given=frozenset(part for part in kept if part != "train"),
        part_rows={str(part): count for part, count in counts.items()},
    )
    notes = tuple(
        f"{many(one.images.dropped, 'pair')} of {one.images.version.path} skipped: unreadable image"
        for one in kept.values()
        if one.images.dropped
    )
    pictures = RawImages(
        images={part: one.images.inputs for part, one in kept.items()},
        labels={part: np.zeros(count, np.int64) for part, count in counts.items()},
        names=("pair",),
        facts=facts,
        notes=notes,
        records={part: one.images.records for part, one in kept.items()},
        rule=kept["train"].images.rule,
        left_out={
            part: UnreadableImages(one.images.dropped, one.images.dropped_names)
            for part, one in kept.items()
        },
    )
    frames = {part: one.frame for part, one in kept.items()}
    return RawPairs(pictures, frames, _codes(kept, caption), facts, notes)


def _codes(kept: dict[PartName, KeptPairs], caption: str) -> dict[PartName, Integers]:
    """Codes of image and caption of each pair [N, 2], over all parts."""
    ends = np.cumsum([len(one.frame) for one in kept.values()])[:-1]
    images = [own for one in kept.values() for own in one.images.inputs.hashes()]
    codes = np.stack(
        [
            pair_codes(images),
            caption_codes(pl.concat([one.frame[caption] for one in kept.values()])),
        ],
        axis=1,
    )
    return dict(zip(kept, np.split(codes, ends), strict=True))


def pair_codes(hashes: Sequence[bytes]) -> Integers:
    """Code of each image [N] from 0 by its hash; equal images have one."""
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(own, len(first)) for own in hashes], dtype=np.int64)
