"""Forests: grown by scikit-learn, kept as arrays, predictions by numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from trainwright.contract.sections.model.trees import Forest
from trainwright.contract.sections.section import settled
from trainwright.core.files import read_json, write_json
from trainwright.core.threads import usable_cores
from trainwright.data.base.inputs import Floats, Inputs, Integers, as_columns
from trainwright.data.base.row_storage import bounds
from trainwright.model.array_file import read_arrays, write_arrays
from trainwright.model.library_family import LibraryJob, tree_matrix
from trainwright.model.trees.target_scales import ONE_TARGET, choose_scale

_ARRAYS = {
    "sizes": ("<i8", 1),
    "feature": ("<i4", 1),
    "threshold": ("<f8", 1),
    "left": ("<i4", 1),
    "right": ("<i4", 1),
    "missing_left": ("|b1", 1),
    "values": ("<f8", 2),
}
"""Type and axes of each array in the file."""


def forest_matrix(inputs: Inputs) -> npt.NDArray[np.float32]:
    """Numbers, text terms and category codes, float32 [N, D]."""
    return np.asarray(tree_matrix(as_columns(inputs).dense()))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ForestScorer:
    """T trees of M nodes together, each beginning with its root; `sizes` [T] are their nodes.

    A node [M] is a leaf (`feature` -1), or sends a row to its child `left` if the number of
    `feature` is at most `threshold` (infinite where only missing ones go right), else `right`; a
    missing one as `missing_left` says. Children count from the root of their tree. `values`
    [leaves, K] are those of the leaves in the order of the nodes: the mean of a number or of each
    of several, the share of each of several labels, or those of the classes `present`.
    """

    outputs: int
    features: int
    present: tuple[int, ...]
    sizes: Integers
    feature: npt.NDArray[np.int32]
    threshold: Floats
    left: npt.NDArray[np.int32]
    right: npt.NDArray[np.int32]
    missing_left: npt.NDArray[np.bool_]
    values: Floats
    kind: ClassVar[str] = "forest"

    def score(self, inputs: Inputs) -> Floats:
        """Class probabilities [N, C], or values [N, 1] or [N, T]: the mean of the trees."""
        columns = as_columns(inputs)
        parts = [self._mean(forest_matrix(columns.between(*ends))) for ends in bounds(len(columns))]
        found = np.concatenate(parts)
        if not self.present:
            return found
        scores = np.zeros((len(found), self.outputs))
        scores[:, list(self.present)] = found
        return scores

    def _mean(self, rows: npt.NDArray[np.float32]) -> Floats:
        """Mean value of the leaves of these rows, [N, K]."""
        places = np.cumsum(self.feature < 0) - 1
        total = np.zeros((len(rows), self.values.shape[1]))
        for root in (np.cumsum(self.sizes) - self.sizes).tolist():
            total += self.values[places[self._leaves(rows, root)]]
        return np.asarray(total / len(self.sizes))

    def _leaves(self, rows: npt.NDArray[np.float32], root: int) -> Integers:
        """The leaf of each row in the tree that begins at `root`, [N]."""
        nodes = np.full(len(rows), root, np.int64)
        going = np.flatnonzero(self.feature[nodes] >= 0)
        while len(going):
            at = nodes[going]
            numbers = rows[going, self.feature[at]]
            is_left = np.where(
                np.isnan(numbers), self.missing_left[at], numbers <= self.threshold[at]
            )
            nodes[going] = root + np.where(is_left, self.left[at], self.right[at])
            going = going[self.feature[nodes[going]] >= 0]
        return nodes

    def write(self, folder: Path) -> None:
        """Write `forest.json` and the arrays, `forest.npz`."""
        about = {"outputs": self.outputs, "features": self.features, "present": list(self.present)}
        write_json(folder / "forest.json", about)
        write_arrays(folder / "forest.npz", {name: getattr(self, name) for name in _ARRAYS})


def read_forest(folder: Path) -> ForestScorer:
    """Read what `ForestScorer.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content, such as a child out of bounds.
    """
    about: Any = read_json(folder / "forest.json")
    counts = [about["outputs"], about["features"], *about["present"]]
    if not all(type(one) is int and one >= 0 for one in counts):
        raise ValueError("forest.json holds something else than counts")
    arrays = read_arrays(folder / "forest.npz", _ARRAYS)
    found = ForestScorer(counts[0], counts[1], tuple(counts[2:]), **arrays)
    _check(found)
    return found


def _check(forest: ForestScorer) -> None:
    """Each node but the roots is the child of exactly one earlier node of its tree."""
    nodes, sizes = len(forest.feature), forest.sizes
    # Bounded before they are added up: the sum of int64 wraps.
    _ask(bool(len(sizes) and ((sizes >= 1) & (sizes <= nodes)).all()), "the sizes")
    _ask(int(sizes.sum()) == nodes, "the sizes")
    per_node = (forest.threshold, forest.left, forest.right, forest.missing_left)
    _ask(all(len(one) == nodes for one in per_node), "the number of nodes")
    is_leaf = forest.feature == -1
    _ask(bool(((forest.feature >= -1) & (forest.feature < forest.features)).all()), "the features")
    _ask(not bool(np.isnan(forest.threshold).any()), "the thresholds")
    roots = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ends = np.repeat(np.cumsum(sizes), sizes)
    inner = np.flatnonzero(~is_leaf)
    children = np.concatenate(
        [forest.left[inner] + roots[inner], forest.right[inner] + roots[inner]]
    )
    above = np.tile(inner, 2)
    _ask(bool(((children > above) & (children < ends[above])).all()), "the children")
    expected = np.setdiff1d(np.arange(nodes), roots)
    _ask(np.array_equal(np.sort(children), expected), "the children")
    values, present = forest.values, forest.present
    _ask(len(values) == int(is_leaf.sum()) and bool(np.isfinite(values).all()), "the values")
    _ask(values.shape[1] == (len(present) or forest.outputs), "the values")
    _ask(all(code < forest.outputs for code in present), "the classes")
    _ask(len(set(present)) == len(present), "the classes")


def _ask(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"{what} of the forest cannot be right")


def fit_forest(section: Forest, job: LibraryJob) -> ForestScorer:
    """Grow the trees of a forest on the training rows."""
    model = build_forest(section, job)
    matrix = forest_matrix(job.train.inputs)
    target = job.train.target
    are_numbers = target.dtype.kind == "f"
    scales = choose_scale(target) if are_numbers else ONE_TARGET
    model.fit(matrix, scales.learned(target), job.row_weights(section.class_weights))
    trees = [one.tree_ for one in model.estimators_]
    if are_numbers:
        means = np.concatenate([tree.value[:, :, 0] for tree in trees])
        return _scorer_of(trees, (), scales.restored(means), matrix)
    if job.are_several:
        return _scorer_of(trees, (), _values_of_labels(trees, model.classes_), matrix)
    present = tuple(int(code) for code in model.classes_)
    values = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return replace(_scorer_of(trees, present, values, matrix), outputs=job.outputs)


def _values_of_labels(trees: Sequence[Any], classes: Sequence[Any]) -> Floats:
    """Share of the rows of each node that have each label, [nodes, L]. `classes` are those among
    the training rows of each label: 0, 1 or both."""
    places = [int(np.flatnonzero(one == 1)[0]) if 1 in one else -1 for one in classes]
    each = [
        np.concatenate([tree.value[:, label, at] for tree in trees])
        if at >= 0
        else np.zeros(sum(tree.node_count for tree in trees))
        for label, at in enumerate(places)
    ]
    return np.stack(each, axis=1)


def build_forest(section: Forest, job: LibraryJob) -> Any:
    """The estimator of scikit-learn, not fitted yet."""
    from sklearn import ensemble

    classes = job.are_labels if job.are_several else job.outputs > 1
    settings: dict[str, Any] = {
        "n_estimators": section.trees,
        "min_samples_leaf": section.min_data_in_leaf,
        "max_depth": None if section.max_depth == "off" else section.max_depth,
        "max_features": settled(section.feature_fraction),
        "random_state": job.seed % 2**32,
        "n_jobs": usable_cores(),
        "monotonic_cst": job.monotone_signs() if job.monotone else None,
    }
    random = section.method == "random_forest"
    if not classes:
        kind = ensemble.RandomForestRegressor if random else ensemble.ExtraTreesRegressor
        return kind(**settings)
    kind = ensemble.RandomForestClassifier if random else ensemble.ExtraTreesClassifier
    balanced = section.class_weights == "balanced" and not len(job.train.weights)
    weights = "balanced" if balanced else None
    return kind(**settings, class_weight=weights)


def _scorer_of(
    trees: Sequence[Any], present: tuple[int, ...], values: Floats, matrix: Any
) -> ForestScorer:
    """`values` [nodes, K] are those of the nodes."""
    sizes = np.array([tree.node_count for tree in trees], np.int64)

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees]).astype(dtype)

    left = joined("children_left", np.int32)
    leaves = left < 0
    return ForestScorer(
        outputs=values.shape[1],
        features=matrix.shape[1],
        present=present,
        sizes=sizes,
        feature=np.where(leaves, -1, joined("feature", np.int32)).astype(np.int32),
        threshold=np.where(leaves, 0.0, joined("threshold", np.float64)),
        left=left,
        right=joined("children_right", np.int32),
        missing_left=joined("missing_go_to_left", np.bool_),
        values=np.ascontiguousarray(values[leaves], np.float64),
    )
