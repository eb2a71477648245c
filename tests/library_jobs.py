"""Rows of a table in memory, as a library of models gets them."""

from __future__ import annotations

import numpy as np
import polars as pl

from trainwright.data.base.inputs import Part, TableInputs
from trainwright.model.library_family import LibraryJob

CARDINALITIES = (12, 12)


def job_of_rows(
    outputs: int, rows: int = 1200, metric: str = "loss", *, missing: bool = True
) -> LibraryJob:
    """Four numbers of which some are missing, and two columns of 12 categories; 7 is the seed."""
    return LibraryJob(
        train=_part(outputs, rows, 1, missing=missing),
        validation=_part(outputs, rows // 3, 2, missing=missing),
        outputs=outputs,
        cardinalities=CARDINALITIES,
        seed=7,
        metric=metric,
        quantile=0.8,
    )


def _part(outputs: int, rows: int, seed: int, *, missing: bool) -> Part:
    draw = np.random.default_rng(seed)
    numeric = draw.normal(size=(rows, 4)).astype(np.float32)
    numeric[draw.random((rows, 4)) < 0.1] = np.nan if missing else 0.5
    categories = draw.integers(0, 12, (rows, 2))
    signal = np.nan_to_num(numeric[:, 0]) + np.sin(categories[:, 0]) + draw.normal(size=rows)
    target = signal.astype(np.float64)
    if outputs > 1:
        target = np.digitize(signal, np.linspace(-1, 1, outputs - 1)).astype(np.int64)
    places = np.arange(rows)
    return Part("train", pl.DataFrame(), TableInputs(numeric, categories), target, places, places)
