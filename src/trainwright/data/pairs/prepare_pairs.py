"""Image-text pairs: division and encoding."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from trainwright.contract.sections.data.pairs import PairData, PictureTable
from trainwright.contract.sections.data.split import GroupSplit
from trainwright.core.files import Json, hash_bytes, hash_value
from trainwright.data.base.inputs import Integers, Part, PartName
from trainwright.data.base.pair_inputs import PairInputs
from trainwright.data.columns.retrieval_targets import Matching, same_text
from trainwright.data.encoders.pixel_statistics import fit_pixels
from trainwright.data.encoders.text_tokenizer import NO_TOKENIZER, TextTokenizer
from trainwright.data.pairs.caption_tokenizer import BaseCaptions, CaptionTokenizer, fit_captions
from trainwright.data.pairs.pair_encoder import PairEncoder
from trainwright.data.pairs.pair_table import WORDS, RawPairs
from trainwright.data.split.groups import group_codes
from trainwright.data.split.random_split import PARTS, Shares, rows_of_parts
from trainwright.data.split.split_report import SplitReport, check_crossing, report_split
from trainwright.data.split.splits import split_rows
from trainwright.data.types import Prepared

_GROUP, _IMAGE, _TEXT = " group", " image", " text"
"""Columns of a split that no file has."""


class DividedPairs(NamedTuple):
    """Positions of the rows of each part in its table, and how they were divided."""

    rows: Mapping[PartName, Integers]
    report: SplitReport


def divide_pairs(raw: RawPairs, section: PictureTable, seed: int) -> DividedPairs:
    """Divide off the parts that do not stand apart, by whole groups, which without
    `group` are the pairs of one image.

    Raises:
        DataMistake: the pairs cannot be divided so, or groups cross parts that stand apart.
    """
    split = split_of_pairs(section)
    frames = {part: _compared(raw, section, part) for part in raw.frames}
    codes = split_rows(frames["train"], WORDS, split, Shares.of(split, raw.facts.given), seed)
    rows = rows_of_parts(codes)
    rows |= {part: np.arange(len(raw.frames[part])) for part in PARTS if part in raw.facts.given}
    made = len(raw.facts.given) < len(PARTS) - 1
    compared = {part: frames[_source(raw, part)][rows[part]] for part in rows}
    report = report_split(compared, split, WORDS, (_IMAGE, _TEXT), made=made)
    if section.group:
        check_crossing(report, split, "data.group", section.group)
    return DividedPairs(rows, report)


def prepare_pairs(
    raw: RawPairs, section: PairData, seed: int, of_base: TextTokenizer = NO_TOKENIZER
) -> Prepared:
    """Divided as `divide_pairs` does; statistics and tokens are fitted on the training pairs
    alone. The tokenizer of a base, if there is one, makes the tokens.

    Raises:
        DataMistake: as `divide_pairs`.
    """
    rows, report = divide_pairs(raw, section, seed)
    captions = raw.frames["train"][section.caption]
    tokenizer = (
        BaseCaptions(of_base)
        if of_base
        else fit_captions(captions[rows["train"]].to_list(), section.tokens)
    )
    parts = {part: pair_part(raw, section, tokenizer, part, rows[part]) for part in rows}
    train = PairInputs.of_kind(parts["train"].inputs)
    features = PairEncoder(
        fit_pixels(train.images.decoded()[1], raw.pictures.rule),
        tokenizer,
        int(train.texts.lengths.max(initial=1)),
        section.caption,
    )
    target = Matching(section.caption, section.image)
    return Prepared(
        train=parts["train"],
        validation=parts["validation"],
        test=parts["test"],
        features=features,
        target=target,
        split=report,
        version=version_of_pairs(
            raw,
            rows,
            {"features": features.identity(), "target": target.identity()},
            section.caption,
        ),
    )


def split_of_pairs(section: PictureTable) -> GroupSplit:
    """Whole groups, or all pairs of one image, stay on one side."""
    return GroupSplit(kind="group", column=_GROUP, validation=section.validation, test=section.test)


def pair_part(
    raw: RawPairs,
    section: PairData,
    tokenizer: CaptionTokenizer | BaseCaptions,
    part: PartName,
    rows: Integers,
) -> Part:
    """The pairs at some positions as a part."""
    found = picture_part(raw, section, part, rows)
    texts = tokenizer.tokenize(found.frame[section.caption].to_list())
    return replace(found, inputs=PairInputs(found.inputs.pictures(), texts))


def picture_part(raw: RawPairs, section: PictureTable, part: PartName, rows: Integers) -> Part:
    """The images at some positions as a part, with the codes of image and caption as targets. Its
    units are groups, or the pairs of one image."""
    source = _source(raw, part)
    frame, codes = raw.frames[source][rows], raw.codes[source][rows]
    group = section.group
    units = group_codes(frame[group]) if group else codes[:, 0]
    return Part(part, frame, raw.pictures.images[source].take(rows), codes, rows, units)


def _source(raw: RawPairs, part: PartName) -> PartName:
    return part if part in raw.facts.given else "train"


def _compared(raw: RawPairs, section: PictureTable, part: PartName) -> pl.DataFrame:
    """The group of each pair, and what duplicates are found by."""
    frame = raw.frames[part]
    images = pl.Series(_IMAGE, raw.codes[part][:, 0])
    group = frame[section.group].cast(pl.String) if section.group else images.cast(pl.String)
    return frame.select(WORDS).with_columns(
        group.alias(_GROUP), images, same_text(frame[section.caption]).alias(_TEXT)
    )


def version_of_pairs(
    raw: RawPairs, rows: Mapping[PartName, Integers], encoded: Json, caption: str
) -> str:
    """Version of divided pairs; `encoded` is what decides every encoded row."""
    texts = {
        str(part): hash_bytes("\x1e".join(frame[caption].to_list()).encode())
        for part, frame in raw.frames.items()
    }
    return hash_value(
        {
            "scheme": 1,
            "files": [file.sha256 for file in raw.facts.files],
            "captions": texts,
            "split": {part: hash_bytes(r.astype("<i8").tobytes()) for part, r in rows.items()},
            **encoded,
        }
    )
