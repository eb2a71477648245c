"""Values of a column: categories as codes (0 unknown, 1 missing, 2 rare, then the kept ones),
counts, and distributions in which no row can be recognised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import polars as pl

from trainwright.core.files import Json
from trainwright.core.redaction import redact_named
from trainwright.data.base.inputs import Floats, Integers
from trainwright.data.base.parse_cells import to_labels
from trainwright.data.base.row_storage import slices_of

UNKNOWN, MISSING, RARE, FIRST_KEPT = 0, 1, 2, 3

FEWEST_ROWS: Final = 5
"""Rows below which a category or a tail is not listed."""

_LEVELS: Final = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_MOST_CATEGORIES = 50
_DIGITS = 6


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


def count_values(series: pl.Series) -> pl.DataFrame:
    """Distinct values in a column `value` and row counts in a column `count`, by descending count,
    then ascending value. The name of the series is irrelevant: a data column may be called
    `count`."""
    return _ordered(series.alias("value").value_counts())


def counted_slices(slices: Iterable[pl.Series]) -> pl.DataFrame:
    """Value counts of a column in chunks; only distinct values are held."""
    counts = pl.concat([count_values(one) for one in slices])
    return _ordered(counts.group_by("value").agg(pl.col("count").sum()))


def _ordered(counts: pl.DataFrame) -> pl.DataFrame:
    return counts.sort("count", "value", descending=[True, False])


def safe_quantiles(values: Floats) -> dict[str, float]:
    """Quantiles by level, of the finite values, with at least `FEWEST_ROWS` of them on each
    side."""
    values = np.sort(values[np.isfinite(values)])
    count = len(values)
    levels = [q for q in _LEVELS if min(q, 1 - q) * count >= FEWEST_ROWS]
    found = np.quantile(values, levels) if levels else np.empty(0)
    return {str(q): rounded(one) for q, one in zip(levels, found.tolist(), strict=True)}


def safe_shares(labels: pl.Series) -> dict[str, Json]:
    """Shares of the most frequent categories, and of all others together: of those with fewer than
    `FEWEST_ROWS` rows, and those that look like a secret."""
    known = to_labels(labels).drop_nulls().alias("v")
    counts = known.value_counts(sort=True, name="n")
    rows = max(1, len(known))
    pairs = zip(counts["v"].to_list(), counts["n"].to_list(), strict=True)
    ordered = sorted(pairs, key=lambda pair: (-pair[1], str(pair[0])))[:_MOST_CATEGORIES]
    kept = {
        str(name): count
        for name, count in ordered
        if count >= FEWEST_ROWS and redact_named(str(name)) == str(name)
    }
    return {
        "categories": {name: rounded(count / rows) for name, count in kept.items()},
        "other_share": rounded(1 - sum(kept.values()) / rows) if len(known) else 0.0,
    }


def rounded(value: float) -> float:
    """Six significant digits."""
    return float(f"{float(value):.{_DIGITS}g}")
