"""The modality of each kind of data."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.metric import TaskKind
from trainwright.core.lazy_imports import LazyTable
from trainwright.data.base.inputs import Bytes, Part
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.text_tokenizer import TextReading
from trainwright.data.modalities.modality import Modality, SplitSettings
from trainwright.data.read_table import Raw
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.types import Prepared

_HERE = "trainwright.data.modalities"

MODALITIES: Mapping[str, Modality[Any, Any]] = LazyTable(
    {
        "table": f"{_HERE}.table_modality:TableModality",
        "images": f"{_HERE}.image_modality:ImageModality",
        "tokens": f"{_HERE}.token_modality:TokenModality",
        "chats": f"{_HERE}.chat_modality:ChatModality",
        "preferences": f"{_HERE}.chat_modality:PreferenceModality",
        "series": f"{_HERE}.series_modality:SeriesModality",
        "pairs": f"{_HERE}.pair_modality:PairModality",
        "text_pairs": f"{_HERE}.text_pair_modality:TextPairModality",
        "captions": f"{_HERE}.caption_modality:CaptionModality",
    },
    build=lambda modality: modality(),
)
"""What is known of a kind of data, by the kind of the `data` section."""


def modality_of(kind: str) -> Modality[Any, Any]:
    """What is known of a kind of data."""
    return MODALITIES[kind]


def read_data(
    section: Data,
    folder: Path,
    frames: Mapping[str, Frame] = NO_FRAMES,
    most_rows: int = sys.maxsize,
) -> Raw:
    """As `Modality.read`."""
    raw: Raw = modality_of(section.kind).read(section, folder, frames, most_rows)
    return raw


def prepare_one_fold(
    raw: Raw, section: Data, task: TaskKind, seed: int, number: int, texts: TextReading
) -> Prepared:
    """As `Modality.prepare_fold`."""
    split = SplitSettings(section, task, seed, texts)
    return modality_of(section.kind).prepare_fold(raw, split, number)


def prepare_joined(
    raw: Raw, section: Data, task: TaskKind, seed: int, texts: TextReading
) -> Prepared:
    """As `Modality.prepare_refit`."""
    split = SplitSettings(section, task, seed, texts)
    return modality_of(section.kind).prepare_refit(raw, split)


def rows_as_given(raw: Raw, section: Data, part: Part) -> Iterator[pl.DataFrame | Bytes]:
    """As `Modality.rows_as_given`."""
    return modality_of(section.kind).rows_as_given(raw, part)


def part_as_read(
    raw: Raw, section: Data, part: Part, features: Encoding, target: Target
) -> Part | None:
    """As `Modality.part_as_read`."""
    return modality_of(section.kind).part_as_read(raw, part, features, target)


def prepare(raw: Raw, section: Data, task: TaskKind, seed: int, texts: TextReading) -> Prepared:
    """As `Modality.prepare`."""
    return modality_of(section.kind).prepare(raw, SplitSettings(section, task, seed, texts))
