"""Text pairs as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.sources import USUAL, Reading
from trainwright.contract.sections.data.text_pairs import TextPairData
from trainwright.core.errors import DataMistake, Mistake, Problem
from trainwright.data.base.inputs import Inputs, Integers, Part
from trainwright.data.base.pair_inputs import OneSide, WantedSide
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFile,
    NewFiles,
    NewPart,
    SplitSettings,
    kept_columns,
)
from trainwright.data.quality.content.document_quality import text_faults
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.text_pairs.prepare_text_pairs import labelled_text_pairs, prepare_text_pairs
from trainwright.data.text_pairs.text_pair_encoder import TextPairEncoder
from trainwright.data.text_pairs.text_pair_table import RawTextPairs, read_text_pairs
from trainwright.data.types import Prepared


@final
class TextPairModality(Modality[TextPairData, RawTextPairs]):
    """Queries with a passage each."""

    section = TextPairData

    def read(
        self,
        section: TextPairData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawTextPairs:
        """As `read_text_pairs`."""
        return read_text_pairs(section, folder)

    def prepare(self, raw: RawTextPairs, split: SplitSettings[TextPairData]) -> Prepared:
        """As `prepare_text_pairs`."""
        return prepare_text_pairs(raw, split.section, split.seed, split.texts.tokenizer)

    def look(
        self,
        raw: RawTextPairs,
        prepared: Prepared,
        split: SplitSettings[TextPairData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Faults of the queries, among them copies between the parts."""
        parts = (prepared.train, prepared.validation, prepared.test)
        texts, sides = _different(parts, split.section.query)
        rows = {"rows": raw.facts.rows, "checks": raw.facts.rows}
        return LookedAt((), text_faults("queries", texts, sides), rows)

    def check(
        self,
        section: TextPairData,
        folder: Path,
        split: Callable[[RawTextPairs], SplitSettings[TextPairData]],
        _seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the queries."""
        raw = read_text_pairs(section, folder)
        quick = effort == "quick"
        try:
            prepared = self.prepare(raw, split(raw))
        except Mistake as mistake:
            tell(f"the pairs cannot be divided: {mistake.problems[0]}")
            texts = raw.parts["train"].frame[section.query].unique(maintain_order=True).to_list()
            undivided = np.zeros(len(texts), dtype=np.int64)
            return text_faults("queries", texts, undivided, quick=quick, tell=tell)
        parts = (prepared.train, prepared.validation, prepared.test)
        texts, sides = _different(parts, section.query)
        return text_faults("queries", texts, sides, quick=quick, tell=tell)

    def read_labelled(
        self,
        data: str,
        features: Encoding,
        _target: Target,
        section: TextPairData,
        _reading: Reading,
    ) -> NewPart:
        """Another table of pairs."""
        part, version, grouped = labelled_text_pairs(
            data, TextPairEncoder.of_kind(features), section
        )
        return NewPart(part, [version], "" if grouped else section.group)

    def read_unlabelled(
        self,
        data: str,
        features: Encoding,
        _section: TextPairData,
        reading: Reading,
        keep: Sequence[str],
        /,
    ) -> NewFile:
        """Queries of a table, or passages of one without."""
        encoder = TextPairEncoder.of_kind(features)
        rows = read_source(data, Path(), "INPUT", reading).frame
        own = encoder.column_of(rows)
        encoder.read_column(rows, own, data)
        return NewFile(rows, kept_columns(rows, keep or [own]))

    def read_side(
        self, data: str, features: Encoding, section: TextPairData, wanted: WantedSide
    ) -> OneSide:
        """Queries or passages of a table."""
        encoder = TextPairEncoder.of_kind(features)
        if wanted in ("images", "texts"):
            raise DataMistake(
                Problem(
                    "the model compares queries with passages",
                    path="--as",
                    found=wanted,
                    expected="queries or passages",
                    fix="write --as passages",
                )
            )
        frame = read_source(data, Path(), "INPUT", USUAL).frame
        has = [one for one in (section.query, section.passage) if one in frame.columns]
        asks = wanted == "queries" or (wanted == "given" and section.query in has)
        asks = asks or (wanted == "found" and section.passage not in has)
        column = section.query if asks else section.passage
        texts = encoder.read_column(frame, column, data)
        names = frame[column].cast(pl.String)
        if asks:
            return OneSide("queries", "passages", texts, names, frame)
        return OneSide("passages", "queries", texts, names, frame)

    def read_texts(self, texts: Sequence[str], features: Encoding, /) -> Inputs:
        """Queries."""
        return TextPairEncoder.of_kind(features).texts.tokenize(texts)

    def names_of_files(self, section: TextPairData, folder: Path, /) -> NewFiles:
        """A table of pairs."""
        here = str(folder / (section.test_path or section.path))
        return NewFiles("QUERIES" if is_remote(section.path) else here, "QUERIES", "PAIRS")


def _different(parts: Sequence[Part], column: str) -> tuple[list[str], Integers]:
    """The different queries of each part, and the number of the part of each."""
    texts = [part.frame[column].unique(maintain_order=True).to_list() for part in parts]
    sides = np.repeat(np.arange(len(parts)), [len(one) for one in texts]).astype(np.int64)
    return [text for each in texts for text in each], sides
