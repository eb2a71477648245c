"""`data` of `kind: spectra`."""

from __future__ import annotations

from typing import ClassVar, Literal

from trainwright.contract.sections.data.data_base import Feeding
from trainwright.contract.sections.section import Fraction


class SpectraData(Feeding):
    """Intensities at fixed wavelengths, with a class each."""

    samplings: ClassVar[tuple[str, ...]] = ("uniform", "balanced")
    sampling_limits: ClassVar[str] = "spectra have no columns"
    tasks: ClassVar[tuple[str, ...]] = ("classification",)

    kind: Literal["spectra"]

    path: str
    """An `.npz` file with `intensities` [N, W] and `substance` [N]."""

    validation: Fraction = 0.2
    """Share that steers the training."""

    test: Fraction = 0.2
    """Share opened once, for the verdict."""

    @property
    def source(self) -> str:
        """`path`."""
        return self.path

    @property
    def part_shares(self) -> tuple[str, dict[str, float]]:
        """`validation` and `test`."""
        return "data", {"validation": self.validation, "test": self.test}
