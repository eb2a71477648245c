"""Input shape of prepared data."""

from __future__ import annotations

from trainwright.data.types import Prepared
from trainwright.model.input_shape import Shape, shape_from_json


def shape_of(prepared: Prepared) -> Shape:
    """Input shape of the data."""
    return shape_from_json(prepared.features.shape_json(prepared.target.network_outputs))
