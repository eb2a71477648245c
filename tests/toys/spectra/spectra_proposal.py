"""What `init` proposes for spectra."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Given(Protocol):
    """What is asked of the data that `init` was given."""

    @property
    def place(self) -> Path:
        """The file."""

    @property
    def written(self) -> str:
        """Its name in the contract."""


def is_spectra(given: Given) -> bool:
    """A NumPy file."""
    return given.place.suffix == ".npz"


def propose_spectra(given: Given) -> str:
    """A contract of a small network."""
    return f"""\
data: {{kind: spectra, path: {given.written}}}
model: {{kind: mlp, hidden: [16]}}
metric: {{name: accuracy}}
"""
