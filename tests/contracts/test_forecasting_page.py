"""The page on forecasting shows the contract in `examples/series`, which trains and forecasts."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest

from command import command
from guide import GUIDE, blocks

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "series"


def test_the_page_shows_the_example() -> None:
    shown = blocks(GUIDE / "forecasting.md", "yaml")
    names = ("contract.yaml", "intervals.yaml")
    assert shown == [(EXAMPLE / name).read_text(encoding="utf-8") for name in names]


@pytest.mark.extended
@pytest.mark.parametrize("name", ["contract.yaml", "intervals.yaml"])
def test_the_example_trains_and_forecasts_what_follows(name: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "series"))
    few = ("--set", "model.max_trees=10", "--runs", tmp_path, "--run", "one")
    ran = command("train", folder / name, *few)
    assert ran.code in (0, 3), ran.err
    rows = pl.read_csv(folder / "visitors.csv")
    days = pl.Series("day", [f"2024-{month}" for month in DAYS])
    shops = rows.select("shop").unique(maintain_order=True)
    future = shops.join(pl.DataFrame(days), how="cross").with_columns(holiday=0, price=3.0)
    history = pl.concat([rows, future], how="diagonal_relaxed")
    history.write_csv(folder / "history.csv")
    ran = command("predict", tmp_path / "one", folder / "history.csv", "-o", tmp_path / "f.csv")
    assert ran.code == 0, ran.err
    found = pl.read_csv(tmp_path / "f.csv")
    assert found.height == 3 * 14
    assert found["step"].to_list() == list(range(1, 15)) * 3
    assert found["day"].str.slice(0, 10).to_list() == days.to_list() * 3
    known = rows.group_by("shop").agg(pl.col("visitors").tail(28).mean())
    columns = [one for one in found.columns if one.startswith("quantile_")]
    assert len(columns) == (3 if name == "intervals.yaml" else 0)
    levels = found.group_by("shop").agg(pl.col("prediction").mean()).join(known, on="shop")
    assert (levels["prediction"] / levels["visitors"]).is_between(0.7, 1.3).all()


DAYS = [f"06-{day}" for day in range(24, 31)] + [f"07-0{day}" for day in range(1, 8)]
