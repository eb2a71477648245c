"""Ratios with zero denominators."""

from __future__ import annotations

import numpy as np

from trainwright.data.base.table import Floats


def ratio(above: Floats, below: Floats) -> Floats:
    """`above / below`, nan where `below` is 0."""
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below != 0)


def ratio_or_zero(above: Floats, below: Floats) -> Floats:
    """`above / below`, 0 where `below` is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)
