"""The benchmark of the data compares like with like, and calls a missed goal missed."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import data  # noqa: E402
from batches import ways  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "ROWS", 1000)
    monkeypatch.setattr(ways, "TOKENS", 50_000)


@pytest.mark.parametrize("name", ["rows", "tokens"])
def test_all_ways_of_a_case_give_batches_of_one_shape(name: str, tmp_path: Path) -> None:
    case = ways.rows() if name == "rows" else ways.tokens(tmp_path)
    shapes = [
        [(tensor.dtype, tensor.shape) for tensor in next(islice(way.batches, 2, 3))]
        for way in case.ways
    ]
    assert all(shape == shapes[0] for shape in shapes)


def test_an_epoch_of_each_way_is_every_row() -> None:
    case = ways.rows()
    sums = [
        float(sum(batch[0].double().sum() for batch in islice(way.batches, case.turn)))
        for way in case.ways
    ]
    assert sums == pytest.approx([sums[0]] * len(sums), abs=1e-6)


@pytest.mark.extended
def test_every_line_has_its_ratio_and_its_goal() -> None:
    lines = [*data.batch_lines(ways.rows(), rounds=1), *data.resume_lines(rounds=1)]
    assert [line.goal for line in lines] == ["at least 20", "at least 1"] + ["at most 1.2"] * 2
    assert all(line.ratio > 0 for line in lines)


def test_a_missed_goal_is_shown() -> None:
    line = data.Line("rows", "another", 1.0, 0.5, "at least 1", met=False)
    assert "| 0.50 | at least 1, missed |" in data.table([line])
