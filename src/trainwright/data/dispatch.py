"""Dispatch by modality: `read_data` and `prepare`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import assert_never

from trainwright.contract.sections.data import Data, TableData
from trainwright.contract.sections.images import ImageData
from trainwright.contract.sections.metric import TaskKind
from trainwright.contract.sections.tokens import TokenData
from trainwright.data.images.prepare_images import prepare_image_fold, prepare_images, read_images
from trainwright.data.images.raw_images import RawImages
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.read_table import RawTable, read_table
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.text.prepare_text import RawTokens, prepare_tokens, read_tokens
from trainwright.data.types import Prepared

Raw = RawTable | RawImages | RawTokens


def read_data(
    section: Data,
    folder: Path,
    frames: Mapping[str, Frame] = NO_FRAMES,
    most_images: int = sys.maxsize,
) -> Raw:
    """Read all data of a section: files relative to `folder`, and frames by name. At most
    `most_images` image files are decoded.

    Raises:
        DataMistake: with every problem that could be found at once.
        MissingExtra: a package that reads a source is not installed.
    """
    match section:
        case TableData():
            return read_table(section, folder, frames)
        case ImageData():
            return read_images(section, folder, most_images)
        case TokenData():
            return read_tokens(section, folder)
        case _:
            assert_never(section)


def prepare_one_fold(raw: Raw, section: Data, task: TaskKind, seed: int, number: int) -> Prepared:
    """Data of the training that tests fold `number`, from 0.

    Raises:
        As `prepare`, which raises every mistake first.
    """
    match section:
        case TableData():
            assert isinstance(raw, RawTable)
            assert task != "generation", "the rules refuse it for a table"
            return prepare_fold(raw, section, task, seed, number)
        case ImageData():
            assert isinstance(raw, RawImages)
            return prepare_image_fold(raw, section, seed, number)
        case TokenData():
            raise AssertionError("a text has no folds")
        case _:
            assert_never(section)


def prepare(raw: Raw, section: Data, task: TaskKind, seed: int) -> Prepared:
    """Split and encode raw data. Every `auto` of the section must be decided. Nothing is fitted on
    validation or test rows.

    Raises:
        DataMistake: the rows cannot be split as asked.
    """
    match section:
        case TableData():
            assert isinstance(raw, RawTable)
            assert task != "generation", "the rules refuse it for a table"
            return prepare_table(raw, section, task, seed)
        case ImageData():
            assert isinstance(raw, RawImages)
            return prepare_images(raw, section, seed)
        case TokenData():
            assert isinstance(raw, RawTokens)
            return prepare_tokens(raw, section)
        case _:
            assert_never(section)
