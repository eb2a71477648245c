"""Categories as codes: 0 unknown, 1 missing, 2 rare, then the kept ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.data.base.cells.parse_cells import to_labels
from trainwright.data.base.storage.row_storage import slices_of
from trainwright.data.base.table import Integers

UNKNOWN, MISSING, RARE, FIRST_KEPT = 0, 1, 2, 3


@final
@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Categories of one column in the training rows: `kept` have a code each, by descending
    frequency; `rare` share one."""

    name: str
    kept: tuple[str, ...]
    rare: tuple[str, ...]

    @property
    def cardinality(self) -> int:
        """The number of codes."""
        return FIRST_KEPT + len(self.kept)

    def encode(self, labels: pl.Series) -> Integers:
        """Codes int64 [N] of String labels."""
        known = [*self.kept, *self.rare]
        codes = [*range(FIRST_KEPT, self.cardinality), *[RARE] * len(self.rare)]
        if not known:
            return np.where(labels.is_null().to_numpy(), MISSING, UNKNOWN).astype(np.int64)
        encoded = labels.replace_strict(known, codes, default=UNKNOWN, return_dtype=pl.Int64)
        return np.where(labels.is_null().to_numpy(), MISSING, encoded.to_numpy())

    def count_unseen(self, labels: pl.Series) -> int:
        """Number of rows with a label unseen in training."""
        return int((self.encode(labels) == UNKNOWN).sum())

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {"name": self.name, "kept": list(self.kept), "rare": list(self.rare)}

    @classmethod
    def from_json(cls, value: Json) -> Vocabulary:
        """The vocabulary that `to_json` wrote."""
        return cls(value["name"], tuple(value["kept"]), tuple(value["rare"]))


def fit_vocabulary(labels: pl.Series, rare_below: int, most: int) -> Vocabulary:
    """Fit a vocabulary to String training labels: those with at least `rare_below` rows are kept,
    at most `most`; ties are ordered by spelling."""
    ordered = sorted(count_labels(labels).items(), key=lambda pair: (-pair[1], pair[0]))
    kept = tuple(label for label, count in ordered[:most] if count >= rare_below)
    return Vocabulary(labels.name, kept, tuple(label for label, _ in ordered[len(kept) :]))


def count_labels(labels: pl.Series) -> Counter[str]:
    """Row counts of the present labels, read by `to_labels`."""
    counts: Counter[str] = Counter()
    for part in slices_of(labels):
        different = part.drop_nulls().alias("label").value_counts(sort=False)
        names = to_labels(different["label"]).to_list()
        for name, count in zip(names, different["count"].to_list(), strict=True):
            counts[name] += count
    return counts
