"""Forests grown by scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwright.contract.sections.model.forest import Forest
from trainwright.contract.sections.section import settled
from trainwright.model.forest.forest_scorer import ForestScorer, forest_matrix
from trainwright.model.library_family import LibraryJob
from trainwright.model.table_matrix import usable_cores


def fit_forest(section: Forest, job: LibraryJob) -> ForestScorer:
    """Grow the trees of a forest on the training rows."""
    model = build_forest(section, job)
    matrix = forest_matrix(job.train.inputs)
    model.fit(matrix, job.train.target, job.row_weights(section.class_weights))
    present = tuple(int(code) for code in model.classes_) if job.outputs > 1 else ()
    return _scorer_of([one.tree_ for one in model.estimators_], present, job.outputs, matrix)


def build_forest(section: Forest, job: LibraryJob) -> Any:
    """The estimator of scikit-learn, not fitted yet."""
    from sklearn import ensemble

    classes = job.outputs > 1
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
    trees: Sequence[Any], present: tuple[int, ...], outputs: int, matrix: Any
) -> ForestScorer:
    sizes = np.array([tree.node_count for tree in trees], np.int64)

    def joined(name: str, dtype: Any) -> Any:
        return np.concatenate([getattr(tree, name) for tree in trees]).astype(dtype)

    left = joined("children_left", np.int32)
    leaves = left < 0
    values = np.concatenate([tree.value[:, 0, :] for tree in trees])
    return ForestScorer(
        outputs=outputs,
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
