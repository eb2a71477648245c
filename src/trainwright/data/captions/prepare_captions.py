"""Preparation of images with captions to write: read and divided as pairs are, and tokenised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.captions import CaptionData
from trainwright.core.errors import DataMistake, Place
from trainwright.data.base.inputs import Part, PartName
from trainwright.data.base.pair_inputs import CaptionInputs
from trainwright.data.base.token_inputs import AnswerSpans, TokenInputs
from trainwright.data.captions.caption_encoding import CaptionEncoding, CaptionText
from trainwright.data.columns.class_target import NextToken
from trainwright.data.encoders.bpe import read_pieces
from trainwright.data.encoders.pixel_statistics import fit_pixels
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.pairs.new_pairs import LabelledPairs, captioned_pictures
from trainwright.data.pairs.pair_table import RawPairs, read_pairs
from trainwright.data.pairs.prepare_pairs import divide_pairs, picture_part, version_of_pairs
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.find_source import absent_column
from trainwright.data.split.random_split import PARTS
from trainwright.data.types import Prepared

TOKENS = "tokens"
"""The column that is made of captions: their tokens, to slice by."""


@final
@dataclass(frozen=True, slots=True)
class RawCaptions(Raw):
    """Captions before they are divided: pairs of images and texts, and how these become tokens."""

    pairs: RawPairs
    text: CaptionText
    facts: DataFacts
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The rows that are skipped."""
        return tuple(("skipped", note) for note in self.notes)

    @property
    def decoded_rows(self) -> int:
        """Rows whose image was decoded."""
        return self.pairs.decoded_rows


def read_captions_of(section: CaptionData, folder: Path, most: int) -> RawCaptions:
    """Read the tables of a section, and the images of their rows.

    Raises:
        DataMistake: every problem of a part at once; a tokenizer that cannot be read.
    """
    words = TextVocabulary("bytes")
    if section.vocabulary == "tokenizer":
        pieces = read_pieces(folder / section.tokenizer, section.tokenizer)
        words = TextVocabulary("subwords", pieces)
    text = CaptionText(words, section.prompt, section.end, section.caption, section.question)
    pairs = read_pairs(section, folder, most)
    _check_questions(section, pairs.frames)
    facts = replace(pairs.facts, answers=_spans(text.encode(pairs.frames["train"])))
    return RawCaptions(pairs, text, facts, pairs.notes)


def _spans(texts: TokenInputs) -> AnswerSpans:
    """The captions of the training table within their texts."""
    rows = np.arange(len(texts))
    starts = texts.starts - texts.documents
    lines = tuple(f"row {row + 1}" for row in rows.tolist())
    return AnswerSpans(rows, np.zeros_like(rows), starts, starts + texts.lengths, rows, lines)


def _check_questions(section: CaptionData, frames: Mapping[PartName, pl.DataFrame]) -> None:
    paths = {"train": section.path, "validation": section.val_path, "test": section.test_path}
    lacking = [
        absent_column("data.question", section.question, frame.columns, Place(paths[part]))
        for part, frame in frames.items()
        if section.question and section.question not in frame.columns
    ]
    if lacking:
        raise DataMistake(lacking)


def prepare_captions(raw: RawCaptions, section: CaptionData, seed: int) -> Prepared:
    """Divided as pairs are, by whole groups or images; nothing is fitted but the statistics of the
    pixels of the training images.

    Raises:
        DataMistake: as `divide_pairs`.
    """
    rows, report = divide_pairs(raw.pairs, section, seed)
    parts = {part: picture_part(raw.pairs, section, part, rows[part]) for part in rows}
    images = parts["train"].inputs.pictures()
    features = CaptionEncoding(fit_pixels(images.decoded()[1], raw.pairs.pictures.rule), raw.text)
    asked = [text for frame in raw.pairs.frames.values() for text in raw.text.questions(frame)]
    encoded = {"features": features.to_json(), "asked": asked}
    train, validation, test = (_captioned(parts[name], raw.text) for name in PARTS)
    return Prepared(
        train=train,
        validation=validation,
        test=test,
        features=features,
        target=NextToken(raw.text.words.size),
        split=report,
        version=version_of_pairs(raw.pairs, rows, encoded, section.caption),
    )


def _captioned(part: Part, text: CaptionText) -> Part:
    """A part of images with the tokens of their captions as targets."""
    texts = text.encode(part.frame)
    frame = part.frame.with_columns(pl.Series(TOKENS, texts.lengths))
    target = NextToken(0).encode(pl.Series(texts.lengths))
    inputs = CaptionInputs(part.inputs.pictures(), texts)
    return replace(part, frame=frame, inputs=inputs, target=target)


def new_captions(data: Path, encoding: CaptionEncoding, section: CaptionData) -> LabelledPairs:
    """Images of another table with their captions as a part, to evaluate a fitted model.

    Raises:
        DataMistake: they cannot be read.
    """
    found = captioned_pictures(data, encoding.pixels, section)
    named = section.model_copy(update={"path": str(data)})
    _check_questions(named, {"train": found.part.frame})
    return found._replace(part=_captioned(found.part, encoding.text))
