"""Series over time as a kind of data."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import polars as pl

from trainwright.contract.sections.data.series import SeriesData
from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import Mistake, Problem
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
from trainwright.data.prepare_series import labelled_part, prepare_series
from trainwright.data.quality.finding import Finding
from trainwright.data.quality.run_checks import Effort
from trainwright.data.series.read_series import RawSeries, read_series
from trainwright.data.series.series_encoder import SeriesEncoder
from trainwright.data.sources.find_source import read_source, skipped_notes
from trainwright.data.sources.frames import NO_FRAMES, Frame
from trainwright.data.sources.remote_store import is_remote
from trainwright.data.types import Prepared


@final
class SeriesModality(Modality[SeriesData, RawSeries]):
    """Series whose next values are forecast."""

    section = SeriesData

    def read(
        self,
        section: SeriesData,
        folder: Path,
        frames: Mapping[str, Frame] = NO_FRAMES,
        _most_rows: int = sys.maxsize,
    ) -> RawSeries:
        """As `read_series`."""
        return read_series(section, folder, frames)

    def prepare(self, raw: RawSeries, split: SplitSettings[SeriesData]) -> Prepared:
        """As `prepare_series`."""
        return prepare_series(raw, split.section, split.seed)

    def look(
        self,
        raw: RawSeries,
        _prepared: Prepared,
        split: SplitSettings[SeriesData],
        _folder: Path,
        limits: LookLimits,
    ) -> LookedAt:
        """As `audit_series`; other faults are refused or reported by reading."""
        # Imported here: new rows are not audited.
        from trainwright.data.audit.series_leaks import audit_series

        by_models = limits.subset == "by_models"
        return LookedAt(() if by_models else audit_series(raw, split.section.known), (), {})

    def check(
        self,
        section: SeriesData,
        folder: Path,
        split: Callable[[RawSeries], SplitSettings[SeriesData]],
        _seed: int,
        _effort: Effort,
        tell: Callable[[str], None],
    ) -> tuple[Finding, ...]:
        """Steps without a row, rows without a target and leaks; other faults are refused."""
        from trainwright.data.audit.series_leaks import audit_series

        raw = read_series(section, folder)
        try:
            self.prepare(raw, split(raw))
        except Mistake as mistake:
            tell(f"no forecasts can be made of them: {mistake.problems[0]}")
        leaks = (one for result in audit_series(raw, section.known) for one in result.findings())
        return (*leaks, *(Finding("time_gaps", "warning", note, 0) for note in raw.notes))

    def read_labelled(
        self, data: str, features: Encoding, _target: Target, _section: SeriesData, reading: Reading
    ) -> NewPart:
        """Newer rows with their past."""
        source = read_source(data, Path(), "DATA", reading)
        encoder = SeriesEncoder.of_kind(features)
        part = labelled_part(encoder.read(source.frame, data), encoder)
        return NewPart(part, source.files, "", skipped_notes(source))

    def read_unlabelled(
        self,
        data: str,
        _features: Encoding,
        _section: SeriesData,
        reading: Reading,
        keep: Sequence[str],
        /,
    ) -> NewFile:
        """A history, with the known columns of the times to forecast."""
        if keep:
            raise Mistake(
                Problem(
                    "forecasts are no rows of the file, whose columns could be kept",
                    path="--keep",
                    found=keep[0],
                    fix="leave it out: series, time and step stand before each forecast",
                )
            )
        return NewFile(read_source(data, Path(), "INPUT", reading).frame, pl.DataFrame())

    def names_of_files(self, section: SeriesData, folder: Path, /) -> NewFiles:
        """A file with the past; with known columns it needs those of the future, too."""
        is_whole = not section.known and not is_remote(section.path)
        here = str(folder / section.path) if is_whole else "HISTORY.csv"
        return NewFiles(here, "HISTORY.csv", "NEWER_ROWS.csv")
