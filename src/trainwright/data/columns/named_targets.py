"""What several targets of a row have in common: their columns and names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.data.base.table import Floats

PREDICTION, TRUTH, SCORE = "prediction_", "target_", "probability_"
"""Name prefixes of the columns of predictions, before the name of a target."""

MOST_SHOWN = 4
"""Targets that a line of text names."""


def named_columns(prefix: str, names: Sequence[str], values: npt.NDArray[Any]) -> list[pl.Series]:
    """A column for each name of values [N, T]."""
    return [pl.Series(f"{prefix}{name}", values[:, at]) for at, name in enumerate(names)]


def read_named(frame: pl.DataFrame, prefix: str, names: Sequence[str]) -> Floats:
    """Inverse of `named_columns`, float64 [N, T]."""
    columns = [frame[f"{prefix}{name}"].cast(pl.Float64).to_numpy() for name in names]
    return np.stack(columns, axis=1)


def check_names(names: Sequence[str]) -> None:
    """Check the names of several targets.

    Raises:
        ValueError: fewer than two, or one stands twice.
    """
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError("target.json names a target twice, or fewer than two")


def and_more(count: int) -> str:
    """The end of a line that shows the first of so many."""
    return f" and {count - MOST_SHOWN} more" if count > MOST_SHOWN else ""
