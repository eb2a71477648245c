"""Few rows get a linear model, or a choice between it and trees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import command, inside
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.model.selection import ModelSelection
from trainwright.planner.init.first_contract import propose_contract


def proposed(folder: Path, frame: pl.DataFrame) -> str:
    frame.write_csv(folder / "rows.csv")
    text = propose_contract(str(folder / "rows.csv"), "y", folder)
    (folder / "contract.yaml").write_text(text)
    return text


def numbers(rows: int, columns: int) -> pl.DataFrame:
    random = np.random.default_rng(0)
    values = {f"x{at}": random.normal(size=rows).round(3) for at in range(columns)}
    return pl.DataFrame({**values, "y": np.arange(rows) * 7 % 11 + random.normal(size=rows)})


@pytest.mark.parametrize("rows", [20, 57])
def test_few_rows_get_a_linear_model_and_the_reason(tmp_path: Path, rows: int) -> None:
    text = proposed(tmp_path, numbers(rows, 3))
    assert read_contract(tmp_path / "contract.yaml").contract.model.kind == "linear"
    assert "too few for trees" in text


@pytest.mark.parametrize(("rows", "kind"), [(62, "auto"), (999, "auto"), (1000, "boosting")])
def test_of_some_hundred_rows_held_out_ones_choose_the_model(
    tmp_path: Path, rows: int, kind: str
) -> None:
    proposed(tmp_path, numbers(rows, 3))
    model = read_contract(tmp_path / "contract.yaml").contract.model
    assert model.kind == kind
    if kind == "auto":
        assert ModelSelection.of(model).chosen_names == ("linear", "boosting")
    with inside(tmp_path):
        assert command("check", "contract.yaml").code == 0


def test_the_smallest_fold_of_a_rolling_origin_counts(tmp_path: Path) -> None:
    days = pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 6, 18), eager=True)
    frame = numbers(len(days), 2).with_columns(day=days)
    text = proposed(tmp_path, frame)
    assert "kind: time" in text
    assert "model: {kind: linear}" in text


@pytest.mark.parametrize(("copies", "by_content"), [(1, False), (2, False), (20, True)])
def test_one_or_two_repeated_rows_do_not_decide_the_split(
    tmp_path: Path, copies: int, by_content: bool
) -> None:
    """Of 150 rows one copy crosses or not by the draw of one split; three are a leak."""
    found = set()
    for seed in range(4):
        draws = np.random.default_rng(seed)
        numbers = draws.normal(size=(150, 4)).round(4)
        target = (numbers[:, 0] + draws.normal(size=150) > 0).astype(int)
        rows = pl.DataFrame({**{f"x{at}": numbers[:, at] for at in range(4)}, "y": target})
        together = pl.concat([rows, rows[:copies]]).sample(fraction=1, shuffle=True, seed=seed)
        together.write_csv(tmp_path / "rows.csv")
        found.add('key: "*"' in propose_contract(str(tmp_path / "rows.csv"), "y", tmp_path))
    assert found == {by_content}
