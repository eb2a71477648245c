"""Whether the parts of a stored predictor fit together: hashes show only that its files are those
that were written."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.typed_fields import check_annotated
from trainwright.predictor.predictor import Predictor


def check_predictor(predictor: Predictor) -> None:
    """Check the fields of features and target, and score rows without content and rows of the last
    categories.

    Raises:
        ValueError: a field of another type, scores of another shape, or not finite. Any exception
            of a scorer that does not fit the features.
    """
    features, target = predictor.features, predictor.target
    check_annotated(features, "features.json")
    check_annotated(target, "target.json")
    target.check()
    if features.tokens != target.tokens:
        raise ValueError("features.json and target.json are of different tokens")
    for inputs in features.trial_inputs():
        scores = predictor.score(inputs)
        if scores.shape != (len(inputs), target.score_columns):
            raise ValueError(f"the scores of the model have the shape {scores.shape}")
        if not np.isfinite(scores).all():
            raise ValueError("the scores of the model are not finite")
