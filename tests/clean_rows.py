"""A table without faults, in which tests put theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from trainwright.data.quality.examined_data import ExaminedData, examine
from trainwright.data.quality.finding import Finding

ROWS = 400


WORDS = (
    *("the", "bank", "sent", "my", "new", "card", "and", "it", "does", "not", "work", "when"),
    *("i", "pay", "in", "a", "shop", "abroad", "today"),
)


def clean(rows: int = ROWS, seed: int = 0) -> dict[str, Any]:
    """Four columns of numbers, one of words, and a target that depends on them."""
    random = np.random.default_rng(seed)
    height, weight = random.normal(170, 9, rows), random.normal(70, 8, rows)
    weight = weight + 0.8 * (height - 170)
    place = random.choice(["Bern", "Oslo", "Rome"], rows)
    age = random.uniform(18, 80, rows)
    wins = (height + 10 * (place == "Oslo") + random.normal(0, 4, rows)) > 172
    return {
        "height": height,
        "weight": weight,
        "age": age,
        "place": list(place),
        "won": ["yes" if win else "no" for win in wins],
    }


def sentences(rows: int = ROWS, seed: int = 1) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, 12)) + f" {row}" for row in range(rows)]


def made(**columns: Any) -> ExaminedData:
    return examine(pl.DataFrame({**clean(), **columns}), "won")


def with_values(name: str, values: Mapping[int, Any]) -> ExaminedData:
    column = list(clean()[name])
    for row, value in values.items():
        column[row] = value
    return made(**{name: column})


def only(found: Sequence[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]
