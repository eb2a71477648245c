"""Spectra as columns, standardised on the training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.table import Floats, TableInputs
from trainwright.data.encoders.encoding import Encoding, NewRows


@final
@dataclass(frozen=True, slots=True)
class SpectraEncoding(Encoding):
    """Mean and deviation of each wavelength [W]."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    modality: ClassVar[str] = "spectra"

    @classmethod
    def fit(cls, intensities: Floats) -> SpectraEncoding:
        """Fit on training rows [N, W]."""
        mean, deviation = intensities.mean(axis=0), intensities.std(axis=0) + 1e-9
        return cls(tuple(mean.tolist()), tuple(deviation.tolist()))

    def encode(self, intensities: Floats) -> TableInputs:
        """Rows [N, W] as numbers."""
        scaled = (intensities - np.array(self.mean)) / np.array(self.deviation)
        return TableInputs(scaled.astype(np.float32), np.empty((len(scaled), 0), np.int64))

    def read_new(self, rows: NewRows, /) -> TableInputs:
        """Rows of a frame with a column for each wavelength."""
        return self.encode(rows.frame().to_numpy())

    def shape_json(self, outputs: int) -> Json:
        """Numbers alone."""
        numbers = len(self.mean)
        return {"kind": "table", "numeric": numbers, "cardinalities": [], "outputs": outputs}

    def describe(self, rows: int) -> str:
        """Their number and width."""
        return f"{rows} spectra of {len(self.mean)} wavelengths"

    def to_json(self) -> Json:
        """Both by name."""
        return {"kind": self.modality, "mean": list(self.mean), "deviation": list(self.deviation)}

    @classmethod
    def from_json(cls, json: Json) -> SpectraEncoding:
        """Inverse of `to_json`."""
        return cls(tuple(json["mean"]), tuple(json["deviation"]))


def as_frame(intensities: Floats) -> pl.DataFrame:
    """A column for each wavelength."""
    return pl.DataFrame(intensities, schema=[f"w{at}" for at in range(intensities.shape[1])])
