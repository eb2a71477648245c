"""Rows encoded again for another model are those that preparing for it gives; folds hold out each
row once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from command import write_rows
from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.data.base.inputs import Part, TableInputs
from trainwright.data.encode_again import (
    ALWAYS_TRAINED,
    TypedRows,
    deal_folds,
    encode_again,
    without_fold,
)
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared

TREES = Features(numeric="none", impute="none", categorical="both")
NETWORK = Features(numeric="quantile", impute="median", categorical="codes")
SPLIT = StratifiedSplit(kind="stratified")


def prepared(folder: Path, features: Features) -> tuple[TableData, Prepared]:
    write_rows(folder / "rows.csv", 200)
    section = TableData(
        path="rows.csv", target="bought", positive="yes", split=SPLIT, features=features
    )
    return section, prepare_table(read_table(section, folder), section, "classification", 3)


def equal(one: Part, other: Part) -> None:
    first, second = TableInputs.of_kind(one.inputs), TableInputs.of_kind(other.inputs)
    np.testing.assert_array_equal(first.numeric, second.numeric)
    np.testing.assert_array_equal(first.categories, second.categories)
    np.testing.assert_array_equal(one.target, other.target)
    np.testing.assert_array_equal(one.rows, other.rows)


@pytest.mark.parametrize(("before", "after"), [(TREES, NETWORK), (NETWORK, TREES)])
def test_rows_encoded_again_have_the_bits_of_rows_prepared_so(
    tmp_path: Path, before: Features, after: Features
) -> None:
    _, first = prepared(tmp_path, before)
    section, wanted = prepared(tmp_path, after)
    found = encode_again(first, section, 3)
    equal(found.train, wanted.train)
    equal(found.validation, wanted.validation)
    assert found.features.to_json() == wanted.features.to_json()
    assert len(found.test) == 0


def test_rows_keep_their_weights(tmp_path: Path) -> None:
    section, _ = prepared(tmp_path, TREES)
    section = section.model_copy(update={"weight": "age"})
    first = prepare_table(read_table(section, tmp_path), section, "classification", 3)
    assert len(first.train.weights) == len(first.train)
    found = encode_again(first, section.model_copy(update={"features": NETWORK}), 3)
    np.testing.assert_array_equal(found.train.weights, first.train.weights)
    with pytest.raises(AssertionError, match="weights"):
        TypedRows.pooled(first)


def test_folds_hold_out_each_row_once_and_train_on_all_others(tmp_path: Path) -> None:
    section, whole = prepared(tmp_path, TREES)
    pool = TypedRows.pooled(whole)
    assert len(pool) == len(whole.train) + len(whole.validation)
    assert len(np.unique(pool.units)) == len(pool)
    dealt = deal_folds(pool, 2, 4, seed=1)
    counts = np.array([np.bincount(pool.target[dealt == fold]) for fold in range(4)])
    assert (np.ptp(counts, axis=0) <= 1).all()
    seen: list[int] = []
    for fold in range(4):
        held = np.flatnonzero(dealt == fold)
        part = without_fold(whole, section, 3, pool, held)
        assert {*part.train.rows} | {*part.validation.rows} == {*pool.rows}
        assert not {*part.train.rows} & {*part.validation.rows}
        assert not {*part.train.rows} & {*whole.test.rows}
        seen += part.validation.rows.tolist()
    assert sorted(seen) == sorted(pool.rows.tolist())


def test_rows_of_a_unit_share_a_fold_and_a_single_one_of_a_class_trains(tmp_path: Path) -> None:
    _, whole = prepared(tmp_path, TREES)
    pool = TypedRows.pooled(whole)
    units = np.arange(len(pool)) // 3
    target = np.zeros(len(pool), dtype=np.int64)
    target[units == 5] = 1
    grouped = TypedRows(pool.frame, target, pool.rows, units)
    dealt = deal_folds(grouped, 2, 5, seed=1)
    for unit in np.unique(units):
        assert len(set(dealt[units == unit].tolist())) == 1
    assert set(dealt[units == 5].tolist()) == {ALWAYS_TRAINED}
    assert (dealt[units != 5] >= 0).all()
