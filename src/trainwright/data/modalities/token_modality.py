"""Texts as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import final

import numpy as np

from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import Mistake
from trainwright.core.files import Json
from trainwright.data.audit.text_overlap import audit_text
from trainwright.data.base.inputs import Integers
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFiles,
    NewPart,
    SplitSettings,
)
from trainwright.data.quality.content.document_quality import document_faults, document_parts
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.text.prepare_text import RawTokens, new_text, prepare_tokens, read_tokens
from trainwright.data.types import Prepared


@final
class TokenModality(Modality[TokenData, RawTokens]):
    """A text, or several, as sequences of tokens."""

    section = TokenData

    def read(
        self,
        section: TokenData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawTokens:
        """As `read_tokens`."""
        return read_tokens(section, folder)

    def prepare(self, raw: RawTokens, split: SplitSettings[TokenData]) -> Prepared:
        """As `prepare_tokens`: a text is split where it is read."""
        return prepare_tokens(raw, split.section)

    def tokenize(
        self, section: TokenData, folder: Path, target: Path, tell: Callable[[str], None], /
    ) -> dict[str, Json]:
        """As `tokenize_text`."""
        # Imported here: few texts are tokenized beforehand.
        from trainwright.data.text.tokenize_text import tokenize_text

        return tokenize_text(section, folder, target, tell)

    def look(
        self,
        raw: RawTokens,
        prepared: Prepared,
        split: SplitSettings[TokenData],
        folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Copies between the parts, and faults of the documents."""
        faults = document_faults(split.section, folder, document_parts(raw))
        rows = raw.facts.rows
        return LookedAt(audit_text(prepared), faults, {"rows": rows, "checks": rows})

    def check(
        self,
        section: TokenData,
        folder: Path,
        _split: Callable[[RawTokens], SplitSettings[TokenData]],
        _seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the documents."""
        parts = _parts_of_documents(section, folder, tell)
        return document_faults(section, folder, parts, quick=effort == "quick", tell=tell)

    def read_labelled(
        self, data: str, features: Encoding, _target: Target, section: TokenData, reading: Reading
    ) -> NewPart:
        """A text, a folder of texts, or the contract's column of a table."""
        part, files = new_text(data, TextVocabulary.of_kind(features), section, reading)
        return NewPart(part, files)

    def names_of_files(self, _section: TokenData, _folder: Path, /) -> NewFiles:
        """A text has no rows to predict."""
        return NewFiles("", "", "TEXT")


def _parts_of_documents(section: TokenData, folder: Path, tell: Callable[[str], None]) -> Integers:
    """Part of each document; none if they cannot be split yet."""
    try:
        return document_parts(read_tokens(section, folder))
    except Mistake as mistake:
        tell(f"faults in undivided documents, since they cannot be divided: {mistake.problems[0]}")
        return np.empty(0, dtype=np.int64)
