"""Prepared rows of a table, encoded again as another model reads them, or divided again into
folds. The test rows stay closed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import polars as pl

from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.files import hash_value
from trainwright.data.base.inputs import NO_WEIGHTS, Floats, Integers, Part, PartName
from trainwright.data.base.row_storage import IN_MEMORY, taken
from trainwright.data.encoders.table_encoder import TableEncoder, TrainRows, fit_features
from trainwright.data.encoders.target_encoding import train_target
from trainwright.data.types import Prepared

ALWAYS_TRAINED = -1
"""The fold of rows that no fold holds out."""

_SHUFFLE = 0x62616767


@final
@dataclass(frozen=True, slots=True)
class TypedRows:
    """N typed rows with their targets, positions in the files, units and weights, as those of a
    `Part`."""

    frame: pl.DataFrame
    target: npt.NDArray[Any]
    rows: Integers
    units: Integers
    weights: Floats = field(default_factory=lambda: NO_WEIGHTS)

    @classmethod
    def of(cls, part: Part) -> Self:
        """Those of a part."""
        return cls(part.frame, part.target, part.rows, part.units, part.weights)

    @classmethod
    def pooled(cls, prepared: Prepared) -> Self:
        """Training and validation rows together; no unit has rows of both. Only training rows have
        weights, so that rows with weights cannot be pooled."""
        assert not len(prepared.train.weights), "the rules refuse weights beside folds of both"
        train, validation = prepared.train, prepared.validation
        first = int(train.units.max(initial=-1)) + 1
        return cls(
            frame=pl.concat([train.frame, validation.frame]),
            target=np.concatenate([train.target, validation.target]),
            rows=np.concatenate([train.rows, validation.rows]),
            units=np.concatenate([train.units, validation.units + first]),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Integers) -> TypedRows:
        """The given rows, in the given order."""
        frame = IN_MEMORY.frame(taken(self.frame, rows))
        weights = self.weights[rows] if len(self.weights) else NO_WEIGHTS
        return TypedRows(frame, self.target[rows], self.rows[rows], self.units[rows], weights)


def encode_again(prepared: Prepared, section: TableData, seed: int) -> Prepared:
    """Training and validation rows encoded as the resolved section says, with no test rows: the
    bits that preparing them so from the files gives."""
    parts = (TypedRows.of(prepared.train), TypedRows.of(prepared.validation))
    return _encoded(prepared, section, seed, *parts)


def without_fold(
    prepared: Prepared, section: TableData, seed: int, pool: TypedRows, held_out: Integers
) -> Prepared:
    """As `encode_again`, with the rows of a fold, positions in the pool, for validation and all
    others for training."""
    inside = np.ones(len(pool), dtype=np.bool_)
    inside[held_out] = False
    train = pool.take(np.flatnonzero(inside))
    return _encoded(prepared, section, seed, train, pool.take(held_out))


def deal_folds(pool: TypedRows, classes: int, count: int, seed: int) -> Integers:
    """Fold of each row, int64 [N], from 0: rows of a unit share one, and each class is spread over
    all. Rows of a class with one unit are always trained on."""
    units, first, of_row = np.unique(pool.units, return_index=True, return_inverse=True)
    kinds = np.asarray(pool.target[first], np.int64) if classes else np.zeros(len(units), np.int64)
    generator = np.random.Generator(np.random.PCG64([seed, _SHUFFLE]))
    order = generator.permutation(len(units))
    order = order[np.argsort(kinds[order], kind="stable")]
    folds = np.empty(len(units), dtype=np.int64)
    folds[order] = np.arange(len(units)) % count
    folds[np.bincount(kinds, minlength=1)[kinds] < 2] = ALWAYS_TRAINED
    return folds[of_row]


def _encoded(
    prepared: Prepared,
    section: TableData,
    seed: int,
    train: TypedRows,
    validation: TypedRows,
) -> Prepared:
    table = TableEncoder.of_kind(prepared.features)
    means = partial(
        train_target, prepared.target, train.target, train.units, section.features.folds, seed
    )
    rows = TrainRows(train.frame, table.columns, table.cleaning, means, table.history, table.limits)
    features, inputs = fit_features(rows, section.features, section.columns)

    def part(name: PartName, rows: TypedRows) -> Part:
        encoded = inputs if rows is train else features.transform(rows.frame)
        return Part(
            name, rows.frame, encoded, rows.target, rows.rows, rows.units, weights=rows.weights
        )

    identity = {"prepared": prepared.version, "features": features.identity()}
    digest = {name: one.rows.tolist() for name, one in (("train", train), ("held", validation))}
    return replace(
        prepared,
        train=part("train", train),
        validation=part("validation", validation),
        test=part("test", validation.take(np.zeros(0, dtype=np.int64))),
        features=features,
        version=hash_value({**identity, **digest}),
    )
