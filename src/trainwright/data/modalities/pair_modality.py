"""Image-text pairs as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.images import ImageFields
from trainwright.contract.sections.data.pairs import PairData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, Problem
from trainwright.data.audit.image_overlap import audit_images
from trainwright.data.base.inputs import Inputs
from trainwright.data.base.pair_inputs import OneSide, WantedSide
from trainwright.data.columns.target import Target
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.images.image_table import names_table
from trainwright.data.images.prepare_images import unlabelled_images
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
from trainwright.data.pairs.new_pairs import labelled_pairs, read_captions, read_pair_side
from trainwright.data.pairs.pair_encoder import PairEncoder
from trainwright.data.pairs.pair_table import RawPairs, read_pairs
from trainwright.data.pairs.prepare_pairs import prepare_pairs
from trainwright.data.quality.content.image_quality import blank_images, file_faults
from trainwright.data.quality.copies.near_duplicate_images import groups_of_raw
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.types import Prepared


@final
class PairModality(Modality[PairData, RawPairs]):
    """Images with a caption each."""

    section = PairData

    def read(
        self,
        section: PairData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        most_rows: int = sys.maxsize,
    ) -> RawPairs:
        """As `read_pairs`."""
        return read_pairs(section, folder, most_rows)

    def prepare(self, raw: RawPairs, split: SplitSettings[PairData]) -> Prepared:
        """As `prepare_pairs`."""
        return prepare_pairs(raw, split.section, split.seed, split.texts.tokenizer)

    def look(
        self,
        raw: RawPairs,
        prepared: Prepared,
        split: SplitSettings[PairData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Copies of images between the parts, and faults of the images."""
        groups = groups_of_raw(raw.pictures)
        audited = audit_images(raw.pictures, split.section, prepared, split.seed, groups)
        rows = {"rows": raw.facts.rows, "checks": raw.decoded_rows}
        named = (replace(one, fix=one.fix.replace("data.fields.", "data.")) for one in audited)
        return LookedAt(tuple(named), _faults(raw), rows)

    def check(
        self,
        section: PairData,
        folder: Path,
        split: Callable[[RawPairs], SplitSettings[PairData]],
        _seed: int,
        _effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Faults of the images."""
        raw = read_pairs(section, folder)
        try:
            self.prepare(raw, split(raw))
        except Mistake as mistake:
            tell(f"the pairs cannot be divided: {mistake.problems[0]}")
        return _faults(raw)

    def read_labelled(
        self, data: str, features: Encoding, _target: Target, section: PairData, _reading: Reading
    ) -> NewPart:
        """Another table of pairs."""
        found = labelled_pairs(Path(data), PairEncoder.of_kind(features), section)
        group = section.group
        return NewPart(found.part, [found.version], "" if found.grouped else group)

    def read_unlabelled(
        self,
        data: str,
        features: Encoding,
        section: PairData,
        reading: Reading,
        keep: Sequence[str],
        /,
    ) -> NewFile:
        """Images of a folder or a file, or texts of a table, which are found by the column of
        captions."""
        encoder = PairEncoder.of_kind(features)
        if names_table(data):
            texts = read_captions(data, encoder, section, reading)
            if texts is not None:
                return NewFile(texts, kept_columns(texts, keep or [encoder.caption]))
        if keep:
            raise Mistake(Problem("images have no columns to keep", path="--keep", fix="remove it"))
        fields = ImageFields(image=section.image)
        images, names, notes = unlabelled_images(Path(data), encoder.pixels, fields)
        before = pl.DataFrame({"image": names}) if names else pl.DataFrame()
        return NewFile(images, before, notes)

    def read_side(
        self, data: str, features: Encoding, section: PairData, wanted: WantedSide
    ) -> OneSide:
        """As `read_pair_side`."""
        return read_pair_side(data, PairEncoder.of_kind(features), section, wanted)

    def read_texts(self, texts: Sequence[str], features: Encoding, /) -> Inputs:
        """Captions."""
        return PairEncoder.of_kind(features).captions.tokenize(texts)

    def names_of_files(self, section: PairData, folder: Path, /) -> NewFiles:
        """A table of pairs."""
        here = str(folder / (section.test_path or section.path))
        return NewFiles("IMAGES" if is_remote(section.path) else here, "IMAGES_OR_TEXTS", "PAIRS")


def _faults(raw: RawPairs) -> tuple[Finding, ...]:
    """Blank images, and faults of their files."""
    return (*blank_images(raw.pictures), *file_faults(raw.pictures))
