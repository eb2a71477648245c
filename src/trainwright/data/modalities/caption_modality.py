"""Images with captions to write as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from trainwright.contract.sections.data.captions import CaptionData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.captions.caption_encoding import CaptionEncoding
from trainwright.data.captions.prepare_captions import (
    RawCaptions,
    new_captions,
    prepare_captions,
    read_captions_of,
)
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
)
from trainwright.data.quality.content.image_quality import blank_images, file_faults
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.types import Prepared


@final
class CaptionModality(Modality[CaptionData, RawCaptions]):
    """Images with a text each, which a model writes."""

    section = CaptionData

    def read(
        self,
        section: CaptionData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        most_rows: int = sys.maxsize,
    ) -> RawCaptions:
        """As `read_captions_of`."""
        return read_captions_of(section, folder, most_rows)

    def prepare(self, raw: RawCaptions, split: SplitSettings[CaptionData]) -> Prepared:
        """As `prepare_captions`."""
        return prepare_captions(raw, split.section, split.seed)

    def look(
        self,
        raw: RawCaptions,
        prepared: Prepared,
        split: SplitSettings[CaptionData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Copies of images between the parts, and faults of the images."""
        pictures = raw.pairs.pictures
        groups = groups_of_raw(pictures)
        audited = audit_images(pictures, split.section, prepared, split.seed, groups)
        rows = {"rows": raw.facts.rows, "checks": raw.decoded_rows}
        named = (replace(one, fix=one.fix.replace("data.fields.", "data.")) for one in audited)
        return LookedAt(tuple(named), _faults(raw), rows)

    def check(
        self,
        section: CaptionData,
        folder: Path,
        split: Callable[[RawCaptions], SplitSettings[CaptionData]],
        _seed: int,
        _effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the images."""
        raw = self.read(section, folder)
        try:
            self.prepare(raw, split(raw))
        except Mistake as mistake:
            tell(f"the captions cannot be divided: {mistake.problems[0]}")
        return _faults(raw)

    def read_labelled(
        self,
        data: str,
        features: Encoding,
        _target: Target,
        section: CaptionData,
        _reading: Reading,
    ) -> NewPart:
        """Another table of images with captions."""
        found = new_captions(Path(data), CaptionEncoding.of_kind(features), section)
        return NewPart(found.part, [found.version], "" if found.grouped else section.group)

    def read_unlabelled(
        self,
        _data: str,
        features: Encoding,
        _section: CaptionData,
        _reading: Reading,
        _keep: Sequence[str],
        /,
    ) -> NewFile:
        """Refused: see `CaptionEncoding.read_new`."""
        raise CaptionEncoding.of_kind(features).not_predicted()

    def names_of_files(self, _section: CaptionData, _folder: Path, /) -> NewFiles:
        """Captions are written, not predicted."""
        return NewFiles("", "", "CAPTIONS")


def _faults(raw: RawCaptions) -> tuple[Finding, ...]:
    """Blank images, and faults of their files."""
    return (*blank_images(raw.pairs.pictures), *file_faults(raw.pairs.pictures))
