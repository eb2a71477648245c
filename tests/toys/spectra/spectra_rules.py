"""Rules on spectra."""

from __future__ import annotations

from collections.abc import Iterator

from spectra.spectra_section import SpectraData
from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def check_file(
    _contract: Contract, data: SpectraData, _written: frozenset[str]
) -> Iterator[Problem]:
    """Spectra are in a NumPy file."""
    if not data.path.endswith(".npz"):
        yield Problem("spectra are read from .npz files", path="data.path", found=data.path)


SPECTRA_RULES = (check_file,)
