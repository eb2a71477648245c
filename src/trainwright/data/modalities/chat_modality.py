"""Chats and pairs of answers as kinds of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import final

import numpy as np

from trainwright.contract.sections.data.chats import ChatData, PreferenceData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, NotAvailable, Problem
from trainwright.data.audit.text_overlap import audit_text
from trainwright.data.chats.chat_encoding import ChatEncoding
from trainwright.data.chats.chat_messages import (
    ChatTable,
    PairTable,
    read_chats,
    read_preferred_pairs,
)
from trainwright.data.chats.prepare_chats import (
    PartShares,
    RawChats,
    new_chats,
    prepare_chats,
    read_raw_chats,
    split_chats,
)
from trainwright.data.chats.prepare_preferences import (
    RawPreferences,
    prepare_preferences,
    read_preferences,
)
from trainwright.data.columns.target import Target
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
class ChatModality(Modality[ChatData, RawChats]):
    """Conversations and instructions with answers."""

    section = ChatData

    def read(
        self,
        section: ChatData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawChats:
        """As `read_raw_chats`."""
        return read_raw_chats(section, folder)

    def prepare(self, raw: RawChats, split: SplitSettings[ChatData]) -> Prepared:
        """As `prepare_chats`: chats are divided where they are read."""
        return prepare_chats(raw, split.section)

    def look(
        self,
        raw: RawChats,
        prepared: Prepared,
        _split: SplitSettings[ChatData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Answers that repeat training chats, and faults of the chats."""
        rows = raw.facts.rows
        faults = text_faults("chats", _texts(raw.table), raw.groups.parts)
        return LookedAt(audit_text(prepared), faults, {"rows": rows, "checks": rows})

    def check(
        self,
        section: ChatData,
        folder: Path,
        _split: Callable[[RawChats], SplitSettings[ChatData]],
        _seed: int,
        effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the chats."""
        table = read_chats(section, folder)
        try:
            shares = PartShares(section.validation, section.test)
            parts = split_chats(table.chats, section.loss_on, shares).parts
        except Mistake as mistake:
            tell(f"faults in undivided chats, since they cannot be divided: {mistake.problems[0]}")
            parts = np.zeros(len(table.chats), dtype=np.int64)
        return text_faults("chats", _texts(table), parts, quick=effort == "quick", tell=tell)

    def read_labelled(
        self, data: str, features: Encoding, _target: Target, section: ChatData, reading: Reading
    ) -> NewPart:
        """Another table of chats."""
        told = section.model_copy(update={"path": data, "reading": reading})
        table = read_chats(told, Path(), "DATA")
        return NewPart(new_chats(table, ChatEncoding.of_kind(features)), table.source.files)

    def names_of_files(self, section: ChatData, _folder: Path, /) -> NewFiles:
        """Chats have no rows to predict."""
        return NewFiles("", "", f"CHATS{Path(section.path).suffix}")


def _texts(table: ChatTable) -> list[str]:
    """Each chat as a text."""
    return ["\n".join(one.content for one in chat.messages) for chat in table.chats]


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
        faults = text_faults("pairs", _texts_of_pairs(raw.table), raw.groups.parts)
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
        texts = _texts_of_pairs(read_preferred_pairs(section, folder))
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


def _texts_of_pairs(table: PairTable) -> list[str]:
    """Each pair as a text: the prompt and both answers."""
    pairs = zip(table.chats[::2], table.chats[1::2], strict=True)
    return [
        "\n".join([*(one.content for one in chosen.messages), rejected.messages[-1].content])
        for chosen, rejected in pairs
    ]
