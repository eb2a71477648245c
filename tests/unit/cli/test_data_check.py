"""`data check` of a contract says what the leakage audit finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import CONTRACT, command, inside, write_rows

FILE_SPLIT = CONTRACT.replace(
    "  target: bought\n", "  target: bought\n  split: {kind: file, path: split.csv}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_rows(tmp_path / "rows.csv", rows=600)
    (tmp_path / "small.yaml").write_text(CONTRACT)
    with inside(tmp_path):
        yield tmp_path


def found() -> dict[str, list[str]]:
    """Kinds that are errors or warnings, with their columns."""
    ran = command("data", "check", "small.yaml", "--quick", "--json")
    assert ran.code in (0, 4), ran.err
    findings = json.loads(ran.out)["findings"]
    return {one["kind"]: one["columns"] for one in findings if one["severity"] != "info"}


def test_a_group_on_both_sides(project: Path) -> None:
    assert "group_overlap" not in found()
    rows = pl.read_csv("rows.csv").sort("bought", "age")
    rows.with_columns(customer=pl.int_range(600) // 6 + 500).sample(
        fraction=1.0, shuffle=True, seed=0
    ).write_csv("rows.csv")
    assert found()["group_overlap"] == ["customer"]


def test_one_line_a_kind(project: Path) -> None:
    """A table of 80 columns, each with two outliers."""
    random = np.random.default_rng(0)
    values = random.normal(100, 1, (600, 80))
    values[[3, 77]] = 10_000
    wide = pl.DataFrame({f"c{at}": values[:, at] for at in range(80)})
    rows = pl.read_csv("rows.csv")
    pl.concat([rows, wide], how="horizontal").write_csv("rows.csv")
    short, every = (
        command("data", "check", "small.yaml", "--quick", *words) for words in ([], ["--all"])
    )
    assert short.code == every.code
    assert len(short.out.splitlines()) < 25
    assert "and 79 more: 'c1', 'c2', 'c3' and 76 more" in " ".join(short.out.split())
    assert every.out.count("outliers") >= 80
    checked = command("check", "small.yaml")
    lines = checked.out.splitlines()
    assert sum(line.startswith("warning") for line in lines) < 8
    assert len(lines) < 40
    assert "pin_memory" not in checked.out


def test_check_and_data_check_agree_on_exit_codes(project: Path) -> None:
    assert command("data", "check", "small.yaml", "--quick").code == 0
    assert command("check", "small.yaml").code == 0
    rows = pl.read_csv("rows.csv")
    rows.with_columns(paid=(pl.col("bought") == "yes").cast(pl.Int64)).write_csv("rows.csv")
    assert command("data", "check", "small.yaml", "--quick").code == 4
    assert command("check", "small.yaml").code == 4
    assert command("check", "small.yaml", "--json").code == 4


def test_a_split_by_a_file_is_looked_at_too(project: Path) -> None:
    Path("small.yaml").write_text(FILE_SPLIT)
    parts = ["train", "train", "validation", "train", "test"] * 120
    lines = ["row,part", *(f"{row},{part}" for row, part in enumerate(parts))]
    Path("split.csv").write_text("\n".join(lines) + "\n")
    assert "leak" not in found()
    rows = pl.read_csv("rows.csv")
    rows.with_columns(paid=(pl.col("bought") == "yes").cast(pl.Int64)).write_csv("rows.csv")
    assert found()["leak"] == ["paid"]
    assert command("train", "small.yaml").code in (0, 3)
