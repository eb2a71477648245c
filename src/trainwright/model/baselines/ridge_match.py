"""Linear matching of images and captions: a ridge regression from areas of the image to terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, final

import numpy as np

from trainwright.data.base.inputs import Floats, Inputs, as_columns
from trainwright.model.array_file import read_arrays, write_arrays

_PENALTY = 1.0
_FILE = "ridge_match.npz"


@final
@dataclass(frozen=True, slots=True, eq=False)
class RidgeMatch:
    """`weights` [areas, terms] and `centre` [areas], `offset` [terms]."""

    weights: Floats
    centre: Floats
    offset: Floats
    kind: ClassVar[str] = "ridge_match"

    def score(self, inputs: Inputs) -> Floats:
        """The terms that an image suggests beside those of its caption, each of length 1, [N, 2
        terms]."""
        numbers = as_columns(inputs).numeric.astype(np.float64)
        areas, terms = np.split(numbers, [len(self.centre)], axis=1)
        guessed = (areas - self.centre) @ self.weights + self.offset
        length = np.maximum(np.linalg.norm(guessed, axis=1, keepdims=True), 1e-12)
        return np.concatenate([guessed / length, terms], axis=1)

    def write(self, folder: Path) -> None:
        """Its arrays."""
        arrays = {"weights": self.weights, "centre": self.centre, "offset": self.offset}
        write_arrays(folder / _FILE, arrays)


def fit_ridge_match(areas: Floats, terms: Floats) -> RidgeMatch:
    """Ridge regression (Hoerl and Kennard 1970) with a penalty of 1 on areas in [0, 1], of training
    pairs [N, areas] and [N, terms]."""
    centre, offset = areas.mean(axis=0), terms.mean(axis=0)
    left = areas - centre
    products = left.T @ left + _PENALTY * np.eye(areas.shape[1])
    weights = np.linalg.solve(products, left.T @ (terms - offset))
    return RidgeMatch(np.ascontiguousarray(weights), centre, offset)


def read_ridge_match(folder: Path) -> RidgeMatch:
    """Inverse of `RidgeMatch.write`.

    Raises:
        ValueError: other arrays, or numbers that are not finite.
    """
    found = read_arrays(
        folder / _FILE, {"weights": ("<f8", 2), "centre": ("<f8", 1), "offset": ("<f8", 1)}
    )
    if not all(bool(np.isfinite(one).all()) for one in found.values()):
        raise ValueError(f"{_FILE} holds numbers that are not finite")
    return RidgeMatch(**found)
