"""Input shape of prepared data."""

from __future__ import annotations

import numpy as np

from trainwright.data.types import Prepared
from trainwright.model.input_shape import Shape, shape_from_json


def shape_of(prepared: Prepared) -> Shape:
    """Input shape of the data."""
    return shape_from_json(prepared.features.shape_json(prepared.target.network_outputs))


def longest_sample(prepared: Prepared) -> int:
    """The most rows of a sample: of a ranking those of a training query, else 1."""
    queries = prepared.target.queries(prepared.train.frame)
    return 1 if queries is None else int(np.bincount(queries).max())
