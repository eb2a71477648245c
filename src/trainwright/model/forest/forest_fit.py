"""Forests grown by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trainwright.contract.sections.model.forest import Forest
from trainwright.contract.sections.section import settled
from trainwright.data.base.table import Floats
from trainwright.model.forest.forest_scorer import ForestScorer, forest_matrix
from trainwright.model.library_family import LibraryJob
from trainwright.model.table_matrix import usable_cores


def fit_forest(section: Forest, job: LibraryJob) -> ForestScorer:
    """Grow the trees of a forest on the training rows."""
    model = build_forest(section, job)
    matrix = forest_matrix(job.train.inputs)
    model.fit(matrix, job.train.target, job.row_weights(section.class_weights))
    trees = [one.tree_ for one in model.estimators_]
    if job.are_several:
        values = _values_of_labels(trees, model.classes_) if job.are_labels else _of_targets(trees)
        return _scorer_of(trees, (), values, matrix)
    present = tuple(int(code) for code in model.classes_) if job.outputs > 1 else ()
    values = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return replace(_scorer_of(trees, present, values, matrix), outputs=job.outputs)


def _of_targets(trees: Sequence[Any]) -> Floats:
    """Means of each target in the nodes, [nodes, T]."""
    return np.concatenate([tree.value[:, :, 0] for tree in trees])


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
