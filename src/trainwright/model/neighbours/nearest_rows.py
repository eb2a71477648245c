"""k nearest neighbours (Cover and Hart 1967): the training rows, searched by a k-d tree.

A tree computes each distance by itself, so that a row's neighbours do not depend on the rows that
are scored with it; a matrix product of many rows rounds otherwise than that of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.model.neighbours import Neighbours
from trainwright.core.files import read_json, write_json
from trainwright.core.threads import usable_cores
from trainwright.data.base.inputs import Floats, Inputs, Integers, TableInputs, as_columns
from trainwright.data.base.row_storage import SLICE_ROWS
from trainwright.model.array_file import read_arrays, write_arrays
from trainwright.model.library_family import LibraryJob
from trainwright.model.tree_growth import weights_by_class

_ARRAYS = {
    "numeric": ("<f4", 2),
    "categories": ("<i8", 2),
    "target": ("<f8", 1),
    "weights": ("<f8", 1),
}
"""Type and axes of each array in the file."""

MOST_NUMBERS: Final = 100_000_000
"""Training rows x encoded columns, one for each value of a category: as points 800 MB."""
_NUMBERS_AT_ONCE: Final = 2**24


def neighbour_points(inputs: Inputs, cardinalities: tuple[int, ...]) -> Floats:
    """Rows as points, float64 [N, D]: numbers, terms, and one-hot codes over the root of 2, so that
    two values of a category are 1 apart."""
    columns = as_columns(inputs).dense()
    first = columns.numeric.shape[1]
    points = np.zeros((len(columns), first + sum(cardinalities)))
    points[:, :first] = columns.numeric
    for at, size in enumerate(cardinalities):
        points[np.arange(len(points)), first + columns.categories[:, at]] = 1 / np.sqrt(2)
        first += size
    return points


@final
@dataclass(frozen=True, slots=True, eq=False)
class NeighboursScorer:
    """N training rows: `numeric` [N, F], `categories` [N, G] of these `cardinalities`, and their
    `target` [N]. `weights` [C] say how much a neighbour of each class counts."""

    outputs: int
    neighbours: int
    weighting: str
    cardinalities: tuple[int, ...]
    numeric: npt.NDArray[np.float32]
    categories: Integers
    target: Floats
    weights: Floats
    tree: Any
    kind: ClassVar[str] = "neighbours"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], or values [N, 1]: the weighted mean of the neighbours."""
        columns = as_columns(inputs)
        width = self.numeric.shape[1] + sum(self.cardinalities)
        step = min(SLICE_ROWS, max(1, _NUMBERS_AT_ONCE // max(1, width)))
        parts = (
            columns.between(start, min(len(columns), start + step))
            for start in range(0, max(1, len(columns)), step)
        )
        return np.concatenate(
            [self._mean(neighbour_points(part, self.cardinalities)) for part in parts]
        )

    def _mean(self, points: Floats) -> Floats:
        if not len(points):
            return np.zeros((0, self.outputs))
        counts = range(1, self.neighbours + 1)
        apart, rows = self.tree.query(points, k=counts, workers=usable_cores())
        say = np.ones_like(apart) if self.weighting == "uniform" else _inverse(apart)
        answers = self.target[rows]
        if self.outputs == 1:
            return np.asarray((say * answers).sum(axis=1) / say.sum(axis=1))[:, None]
        codes = answers.astype(np.int64)
        votes = np.zeros((len(points), self.outputs))
        np.add.at(votes, (np.arange(len(points))[:, None], codes), say * self.weights[codes])
        return np.asarray(votes / votes.sum(axis=1, keepdims=True))

    def write(self, folder: Path) -> None:
        """Write `neighbours.json` and the rows, `neighbours.npz`."""
        about = {
            "outputs": self.outputs,
            "neighbours": self.neighbours,
            "weighting": self.weighting,
            "cardinalities": list(self.cardinalities),
        }
        write_json(folder / "neighbours.json", about)
        write_arrays(folder / "neighbours.npz", {name: getattr(self, name) for name in _ARRAYS})


def _inverse(apart: Floats) -> Floats:
    """Inverse distances; those at no distance alone where there are some."""
    is_same = apart == 0
    inverse = 1 / np.where(is_same, 1.0, apart)
    return np.where(is_same.any(axis=1, keepdims=True), is_same.astype(np.float64), inverse)


def fit_neighbours(section: Neighbours, job: LibraryJob) -> NeighboursScorer:
    """Remember the training rows."""
    columns = as_columns(job.train.inputs).dense()
    assert bool(np.isfinite(columns.numeric).all()), "numbers of a distance are imputed"
    weights = weights_by_class(section.class_weights, job.train.target, job.outputs)
    return _scorer_of(
        {
            "outputs": job.outputs,
            "neighbours": section.neighbours,
            "weighting": section.weighting,
            "cardinalities": job.cardinalities,
        },
        {
            "numeric": np.ascontiguousarray(columns.numeric),
            "categories": np.ascontiguousarray(columns.categories),
            "target": job.train.target.astype(np.float64),
            "weights": np.ones(job.outputs) if weights is None else weights,
        },
    )


def read_neighbours(folder: Path) -> NeighboursScorer:
    """Read what `NeighboursScorer.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, such as a code out of bounds.
    """
    about: Any = read_json(folder / "neighbours.json")
    about["cardinalities"] = tuple(about["cardinalities"])
    counts = [about["outputs"], about["neighbours"], *about["cardinalities"]]
    _ask(all(type(one) is int and one >= 1 for one in counts), "a count")
    _ask(about["weighting"] in ("uniform", "distance"), "weighting")
    arrays = read_arrays(folder / "neighbours.npz", _ARRAYS)
    codes, target, rows = arrays["categories"], arrays["target"], len(arrays["target"])
    width = arrays["numeric"].shape[1] + sum(about["cardinalities"])
    _ask(rows * width <= MOST_NUMBERS, "the cardinalities")
    sizes = np.asarray(about["cardinalities"], np.int64)
    _ask(len(arrays["numeric"]) == len(codes) == rows >= about["neighbours"], "the rows")
    _ask(codes.shape[1] == len(sizes) and bool(((codes >= 0) & (codes < sizes)).all()), "a code")
    _ask(all(bool(np.isfinite(arrays[name]).all()) for name in _ARRAYS), "a number")
    _ask(arrays["weights"].shape == (about["outputs"],), "the weights")
    _ask(bool((arrays["weights"] > 0).all()), "the weights")
    if about["outputs"] > 1:
        _ask(bool(np.isin(target, np.arange(about["outputs"])).all()), "a class")
    return _scorer_of(about, arrays)


def _scorer_of(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> NeighboursScorer:
    from scipy.spatial import KDTree

    rows = TableInputs(arrays["numeric"], arrays["categories"])
    tree = KDTree(neighbour_points(rows, about["cardinalities"]))
    fields: dict[str, Any] = {**about, **arrays}
    return NeighboursScorer(**fields, tree=tree)


def _ask(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} of the neighbours cannot be right")
