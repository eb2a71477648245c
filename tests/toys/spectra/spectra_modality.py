"""What is known of spectra."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import polars as pl

from spectra.spectra_encoding import SpectraEncoding, as_frame
from spectra.spectra_section import SpectraData
from trainwright.contract.sections.data.data import RandomSplit
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.hashing import hash_file, hash_value
from trainwright.data.base.table import Floats, Integers, Part, PartName
from trainwright.data.columns.fit_target import fit_target
from trainwright.data.columns.target import Classes
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.columns.target_kind import Target
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
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.read_table import DataFacts, Raw
from trainwright.data.sources.data_source import FileVersion
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.split.split_report import report_split
from trainwright.data.types import Prepared

SUBSTANCE = "substance"
PARTS: tuple[PartName, ...] = ("train", "validation", "test")


@final
@dataclass(frozen=True, slots=True)
class RawSpectra(Raw):
    """All spectra [N, W] and their substances."""

    intensities: Floats
    substances: pl.Series
    facts: DataFacts
    notes: tuple[str, ...] = ()


def read_spectra(file: Path) -> RawSpectra:
    """Read a file."""
    with np.load(file) as found:
        intensities, names = found["intensities"], found[SUBSTANCE]
    substances = pl.Series(SUBSTANCE, names.tolist(), dtype=pl.String)
    counts = dict(sorted(substances.value_counts().iter_rows()))
    rows = len(substances)
    facts = DataFacts(
        rows=rows,
        columns=(),
        target=TargetFacts("classes", counts, len(counts), missing=0),
        files=(FileVersion(file.name, hash_file(file), file.stat().st_size, rows),),
        given=frozenset(),
        part_rows={"train": rows},
    )
    return RawSpectra(intensities, substances, facts)


@final
class SpectraModality(Modality[SpectraData, RawSpectra]):
    """Spectra of substances."""

    section = SpectraData

    def read(
        self,
        section: SpectraData,
        folder: Path,
        _frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawSpectra:
        """As `read_spectra`."""
        return read_spectra(folder / section.path)

    def prepare(self, raw: RawSpectra, split: SplitSettings[SpectraData]) -> Prepared:
        """Divided at random."""
        section, rows = split.section, raw.facts.rows
        order = np.random.default_rng(split.seed).permutation(rows)
        cuts = np.cumsum([round(rows * section.validation), round(rows * section.test)])
        validation, test, train = (np.sort(one) for one in np.split(order, cuts))
        places = dict(zip(PARTS, (train, validation, test), strict=True))
        target = fit_target(raw.substances.gather(train), "classification", "auto")
        features = SpectraEncoding.fit(raw.intensities[train])
        parts = {name: self._part(raw, features, target, name, at) for name, at in places.items()}
        frames = {name: part.frame for name, part in parts.items()}
        report = report_split(
            frames, RandomSplit(kind="random"), SUBSTANCE, tuple(frames["train"].columns), made=True
        )
        version = hash_value({"file": raw.facts.files[0].sha256, "seed": split.seed})
        return Prepared(**parts, features=features, target=target, split=report, version=version)

    def _part(
        self,
        raw: RawSpectra,
        features: SpectraEncoding,
        target: Target,
        name: PartName,
        rows: Integers,
    ) -> Part:
        values, labels = raw.intensities[rows], raw.substances.gather(rows)
        frame = as_frame(values).with_columns(labels)
        encoded = target.encode(labels)
        return Part(name, frame, features.encode(values), encoded, rows, np.arange(len(rows)))

    def look(
        self,
        raw: RawSpectra,
        _prepared: Prepared,
        _split: SplitSettings[SpectraData],
        _folder: Path,
        _limits: LookLimits,
    ) -> LookedAt:
        """Dead spectra."""
        dead = np.flatnonzero(raw.intensities.max(axis=1) <= 0)
        message = f"{len(dead)} spectra are dark"
        faults = [Finding("constant", "warning", message, len(dead))] if len(dead) else []
        return LookedAt((), tuple(faults), {"rows": raw.facts.rows, "checks": raw.facts.rows})

    def check(
        self,
        _section: SpectraData,
        _folder: Path,
        _split: Callable[[RawSpectra], SplitSettings[SpectraData]],
        _seed: int,
        _effort: Effort,
        _tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Nothing."""
        return ()

    def read_labelled(
        self,
        data: str,
        features: Encoding,
        target: Target,
        _section: SpectraData,
        _reading: Reading,
    ) -> NewPart:
        """Another file of the same form."""
        raw, encoding = read_spectra(Path(data)), SpectraEncoding.of_kind(features)
        every = np.arange(raw.facts.rows)
        assert isinstance(target, Classes)
        return NewPart(self._part(raw, encoding, target, "test", every), raw.facts.files)

    def read_unlabelled(
        self,
        data: str,
        _features: Encoding,
        _section: SpectraData,
        _reading: Reading,
        _keep: Sequence[str],
        /,
    ) -> NewFile:
        """The intensities of a file, next to the substance that it names."""
        raw = read_spectra(Path(data))
        return NewFile(as_frame(raw.intensities), raw.substances.alias("named").to_frame())

    def names_of_files(self, section: SpectraData, folder: Path, /) -> NewFiles:
        """A file."""
        return NewFiles(str(folder / section.path), "SPECTRA.npz", "SPECTRA.npz")
