"""What a table looks like to a model, and the width of its embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableShape:
    """Numeric columns, the number of codes of each categorical column, and model outputs."""

    numeric: int
    cardinalities: tuple[int, ...]
    outputs: int


PERIODIC_FREQUENCIES = 48
PERIODIC_WIDTH = 16
"""Learned frequencies and embedded features of each number under `numeric_embedding: periodic`."""


def embedding_width(categories: int) -> int:
    """min(50, ceil(1.6 * categories ** 0.56)): the rule of thumb of fastai's tabular models."""
    width: float = 1.6 * categories**0.56
    return min(50, math.ceil(width))
