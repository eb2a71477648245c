"""Room in memory and in files: numbers and rows come back as they were, in order, and the disk has
its room back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest

from trainwright.contract.sections.data.split import (
    GroupSplit,
    Split,
    StratifiedGroupSplit,
    StratifiedSplit,
    TimeSplit,
)
from trainwright.core.files import hash_bytes
from trainwright.data.base import row_storage as space_module
from trainwright.data.base.cleaned_cells import Cells
from trainwright.data.base.inputs import Integers
from trainwright.data.base.row_storage import (
    IN_MEMORY,
    InFiles,
    chosen_positions,
    dense_ranks,
    sorted_positions,
    spread_rows,
    taken,
)
from trainwright.data.split.groups import group_codes
from trainwright.data.split.random_split import Shares, draw_parts, random_keys
from trainwright.data.split.split_file import NOWHERE, KeyIndex
from trainwright.data.split.splits import split_rows


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many slices of few rows."""
    monkeypatch.setattr(space_module, "SLICE_ROWS", 700)


@pytest.mark.parametrize(
    "values",
    [[0.0, -0.0, None, 2.5, float("nan")], ["b", None, "ä", "", "B"], [True, None, False]],
    ids=["numbers", "words", "yes or no"],
)
def test_groups_are_numbered_by_their_rank(values: list[object], tmp_path: Path) -> None:
    column = pl.Series("a", values * 500)
    ranks = column.rank("dense")
    alone = ranks.is_null().cum_sum().to_numpy() + ranks.max()
    expected = np.where(ranks.is_null().to_numpy(), alone, ranks.fill_null(0).to_numpy())
    for space in (IN_MEMORY, InFiles(tmp_path)):
        assert group_codes(column, space).tolist() == expected.tolist()


FROZEN: dict[str, tuple[Split, str]] = {
    "group": (
        GroupSplit(kind="group", column="shop"),
        "b258e858073c9599bd7015d9bffa201e50bf55888a17dc84a8c43e93f8ec5f31",
    ),
    "hashed group": (
        GroupSplit(kind="group", column="shop", assign="hashed"),
        "52539542340d59089a8e678a568ca523a605c90fc73d25f5c541ae2df76e8617",
    ),
    "stratified group": (
        StratifiedGroupSplit(kind="stratified_group", column="shop"),
        "311855ffa38d73dfc40eca2636309f3af136efd8b30c5aede286a58460ff9604",
    ),
    "time": (
        TimeSplit(kind="time", column="when", gap=9.0, window=600.0),
        "80e7fc5829a17648e66592f11bd8bcd2f69d79ef9b95b5b33c55976b45c715ca",
    ),
}


@pytest.mark.parametrize("name", FROZEN)
def test_a_split_of_earlier_versions_stays_as_it_was(name: str, tmp_path: Path) -> None:
    split, frozen = FROZEN[name]
    row = np.arange(3000)
    # Rows without a shop were one group, by this name.
    shops = ["\x1e" if shop == 7 else str(shop) for shop in (row * 7919 % 41).tolist()]
    frame = pl.DataFrame(
        {"shop": shops, "when": row * 48271 % 3000 / 3, "y": (row % 3).astype(str)}
    )
    for space in (IN_MEMORY, InFiles(tmp_path)):
        parts = split_rows(frame, "y", split, Shares.of(split, frozenset()), 3, space)
        assert hash_bytes(parts.tobytes()) == frozen


def test_nothing_stays_on_the_disk(tmp_path: Path) -> None:
    space = InFiles(tmp_path / "scratch")
    frame = pl.DataFrame({"a": range(2000), "b": ["x", None] * 1000})
    numbers = frame["a"].to_numpy()
    chosen = chosen_positions(2000, lambda start, stop: numbers[start:stop] % 3 == 0, space)
    assert chosen.tolist() == list(range(0, 2000, 3))
    assert space.frame(taken(frame, chosen)).equals(IN_MEMORY.frame(taken(frame, chosen)))
    assert space.frame([frame.head(0)]).equals(frame.head(0))
    assert space.array((0, 3), np.int64).shape == (0, 3)
    assert not list((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, 1.5, None] * 900,
        [f"word {i % 1300}" for i in range(3000)],
        [None] * 800,
        list(range(1000, 3800)),
    ],
    ids=["zeros", "words", "none", "all"],
)
def test_different_values_are_counted_exactly(
    values: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.data.base.cleaned_cells._MOST_HELD", 100)
    series = pl.Series("a", values)
    cells = Cells(series, space=InFiles(tmp_path))
    assert cells.distinct == series.drop_nulls().n_unique()
    assert (len(cells), cells.missing) == (len(series), series.null_count())


def test_parts_are_drawn_by_the_order_of_keys(tmp_path: Path) -> None:
    labels = np.random.default_rng(2).integers(0, 3, 3000)
    sizes, wanted = np.bincount(labels).tolist(), [(100, 50), (0, 700), (3, 0)]
    expected = np.zeros(3000, dtype=np.int64)
    for code, (validation, test) in enumerate(wanted):
        rows = np.flatnonzero(labels == code)
        order = rows[np.argsort(random_keys(3000, 5, "split")[rows])]
        expected[order[:validation]] = 1
        expected[order[validation : validation + test]] = 2

    def codes() -> Iterator[Integers]:
        return (labels[start : start + 700] for start in range(0, 3000, 700))

    for space in (IN_MEMORY, InFiles(tmp_path)):
        assert (draw_parts(codes, sizes, wanted, 5, space) == expected).all()


def test_many_classes_need_no_more_arrays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An array in a file is an open file, of which a process may have few."""
    made: list[tuple[int, ...]] = []
    array = InFiles.array

    def counted(self: InFiles, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        made.append(shape)
        return array(self, shape, dtype)

    monkeypatch.setattr(InFiles, "array", counted)
    labels = pl.Series("y", [f"class {row % 900}" for row in range(4500)])
    split = StratifiedSplit(kind="stratified")
    shares = Shares.of(split, frozenset())
    parts = split_rows(labels.to_frame(), "y", split, shares, 3, InFiles(tmp_path))
    assert np.bincount(parts).tolist() == [2700, 900, 900]
    assert len(made) < 5


@pytest.mark.parametrize("rows", [0, 1, 7, 100, 101, 150, 201, 1000])
def test_as_many_rows_are_spread_as_are_asked_for(rows: int) -> None:
    chosen = spread_rows(rows, 100)
    assert len(chosen) == min(rows, 100)
    assert len(set(chosen.tolist())) == len(chosen)
    assert (chosen < rows).all()


@pytest.mark.parametrize("kind", ["few", "many", "floats", "equal"])
def test_places_and_ranks_are_those_of_a_sort(kind: str, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    values = {
        "few": draw.integers(0, 4, 3000),
        "many": draw.integers(0, 2**62, 3000),
        "floats": draw.normal(size=3000).round(2),
        "equal": np.full(3000, 7),
    }[kind]
    for space in (IN_MEMORY, InFiles(tmp_path)):
        assert (sorted_positions(values, space) == np.argsort(values, kind="stable")).all()
        expected = np.unique(values, return_inverse=True)[1] + 1
        assert (dense_ranks(values, space) == expected).all()


def test_keys_are_found_even_where_their_first_hashes_are_one(tmp_path: Path) -> None:
    keys = pl.Series([f"k{at}" for at in range(2000)])
    space = InFiles(tmp_path)
    places = KeyIndex.of(lambda start, stop: keys.slice(start, stop - start), 2000, space)
    asked = pl.Series(["k1999", None, "k0", "none"])
    assert places.find(asked).tolist() == [1999, NOWHERE, 0, NOWHERE]
    assert not places.alike(space).size
    # As if three keys had one hash: the first of one of them stands at the other two.
    (same,) = asked.head(1).hash(0)
    ascending = np.full(2000, 2**64 - 1, np.uint64)
    ascending[:3] = same
    order = np.array([5, 1999, 6, *range(1997)])
    collided = KeyIndex(ascending, order, places.others)
    assert collided.find(pl.Series(["k1999"])).tolist() == [1999]
    assert set(order[:3]) <= set(collided.alike(space).tolist())
