"""A small search that tests read: its contract, and the rows."""

from __future__ import annotations

import random
from typing import Any

import polars as pl

SEARCHED: dict[str, Any] = {
    "name": "buyers",
    "data": {"path": "frame://people", "target": "bought"},
    "model": {"kind": "boosting", "max_trees": 20},
    "metric": {"name": "roc_auc", "target": 0.6, "resamples": 100},
    "tune": {
        "over": {
            "model.num_leaves": [2, 4, 8],
            "model.learning_rate": {"low": 0.01, "high": 0.3, "scale": "log"},
            "model.objective": ["auto", "log_loss"],
        },
        "trials": 3,
    },
}


def people(rows: int = 300) -> pl.DataFrame:
    draw = random.Random(1)
    ages = [draw.gauss(45, 15) for _ in range(rows)]
    bought = ["yes" if age + draw.gauss(0, 12) > 50 else "no" for age in ages]
    return pl.DataFrame({"age": ages, "city": [draw.choice("ab") for _ in ages], "bought": bought})
