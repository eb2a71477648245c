"""BM25 as a scorer of text pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.data.base.inputs import Floats, Inputs, as_columns
from trainwright.model.array_file import read_arrays, write_arrays

_FILE = "okapi_bm25.npz"
_K1, _B = 1.2, 0.75
"""The usual values (Robertson and Zaragoza 2009, section 3.5.2)."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class OkapiBm25:
    """`rarity` [T] of each term and of what is none, and the mean number of words of a passage."""

    rarity: Floats
    mean_length: float
    kind: ClassVar[str] = "okapi_bm25"

    def score(self, inputs: Inputs) -> Floats:
        """Counts of the terms of a query, and the BM25 weights of those of a passage, [N, 2 T]:
        their product is the score (Robertson and Zaragoza 2009, The probabilistic relevance
        framework, equation 3.15)."""
        numbers = as_columns(inputs).numeric.astype(np.float64)
        queries, counts = np.split(numbers, 2, axis=1)
        length = counts.sum(axis=1, keepdims=True) / self.mean_length
        saturated = counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * length))
        return np.concatenate([queries, saturated * self.rarity], axis=1)

    def write(self, folder: Path) -> None:
        """Its arrays."""
        arrays = {"rarity": self.rarity, "mean_length": np.array([self.mean_length])}
        write_arrays(folder / _FILE, arrays)


def fit_okapi_bm25(counts: Floats, documents: Floats, passages: int) -> OkapiBm25:
    """BM25 of passages with `counts` [N, T] of terms, of which each occurs in so many `documents`
    [T - 1]; the last column counts what is no term, which no query finds."""
    rarity = np.log(1 + (passages - documents + 0.5) / (documents + 0.5))
    mean = max(1.0, float(counts.sum(axis=1).mean()))
    return OkapiBm25(np.append(rarity, 0.0), mean)


def read_okapi_bm25(folder: Path) -> OkapiBm25:
    """Inverse of `OkapiBm25.write`.

    Raises:
        ValueError: other arrays, or numbers that are not finite.
    """
    found = read_arrays(folder / _FILE, {"rarity": ("<f8", 1), "mean_length": ("<f8", 1)})
    if not all(bool(np.isfinite(one).all()) for one in found.values()):
        raise ValueError(f"{_FILE} holds numbers that are not finite")
    mean = found["mean_length"]
    if len(mean) != 1 or mean[0] <= 0:
        raise ValueError(f"{_FILE} has no mean length")
    return OkapiBm25(found["rarity"], float(mean[0]))
