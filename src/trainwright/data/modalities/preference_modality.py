"""Pairs of answers as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import final

import numpy as np

from trainwright.contract.sections.data.chats import PreferenceData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import NotAvailable, Problem
from trainwright.data.chats.preference_pairs import PairTable, read_preferred_pairs
from trainwright.data.chats.prepare_preferences import (
    RawPreferences,
    prepare_preferences,
    read_preferences,
)
from trainwright.data.columns.target_kind import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.modalities.modality import (
    LookedAt,
    LookLimits,
    Modality,
    NewFiles,
    NewPart,
    SplitSettings,
)
from trainwright.data.quality.content.document_quality import text_faults
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.types import Prepared


@final
class PreferenceModality(Modality[PreferenceData, RawPreferences]):
    """Pairs of answers, of which one is preferred."""

    section = PreferenceData

    def read(
        self,
        section: PreferenceData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawPreferences:
        """As `read_preferences`."""
        return read_preferences(section, folder)

    def prepare(self, raw: RawPreferences, split: SplitSettings[PreferenceData]) -> Prepared:
        """As `prepare_preferences`: pairs are divided where they are read."""
        return prepare_preferences(raw, split.section)

    def look(
        self,
        raw: RawPreferences,
        _prepared: Prepared,
        _split: SplitSettings[PreferenceData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Faults of the pairs, among them copies between the parts."""
        rows = raw.facts.rows
        faults = text_faults("pairs", _texts(raw.table), raw.groups.parts)
        return LookedAt((), faults, {"rows": rows, "checks": rows})

    def check(
        self,
        section: PreferenceData,
        folder: Path,
        _split: Callable[[RawPreferences], SplitSettings[PreferenceData]],
        _seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the pairs."""
        texts = _texts(read_preferred_pairs(section, folder))
        undivided = np.zeros(len(texts), dtype=np.int64)
        return text_faults("pairs", texts, undivided, quick=effort == "quick", tell=tell)

    def read_labelled(
        self,
        data: str,
        _features: Encoding,
        _target: Target,
        _section: PreferenceData,
        _reading: Reading,
    ) -> NewPart:
        """Refused: what the base says of them is not in a bundle."""
        raise NotAvailable(
            Problem(
                "other preferences are not judged in this version",
                path="DATA",
                found=data,
                expected="no file: the test pairs of the run",
                fix="trainwright evaluate RUN, without a file",
            )
        )

    def names_of_files(self, _section: PreferenceData, _folder: Path, /) -> NewFiles:
        """Pairs have no rows to predict."""
        return NewFiles("", "", "")


def _texts(table: PairTable) -> list[str]:
    """Each pair as a text: the prompt and both answers."""
    pairs = zip(table.chats[::2], table.chats[1::2], strict=True)
    return [
        "\n".join([*(one.content for one in chosen.messages), rejected.messages[-1].content])
        for chosen, rejected in pairs
    ]
