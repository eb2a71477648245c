"""The benchmark of sizes: the same data each time, every stage measured, sizes not run named."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

pytest.importorskip("torch")
pytest.importorskip("lightgbm")

import scale
from scale import Size, Took
from scales import made


def size(kind: scale.Kind, count: int, check: float, megabytes: float) -> Size:
    took = Took(10.0, 300.0)
    ours = dict.fromkeys(("prepare", "train", "predict", "judge"), took)
    whole = Took(50.0, megabytes)
    used = {"check": 3.0, "ours": 4.0, "script": 5.0}
    return Size(
        kind, count, {**ours, "check": Took(check, 1.0), "whole": whole}, {"whole": took}, used
    )


@pytest.mark.extended
def test_data_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        made.make_table(50, tmp_path / f"{name}.csv")
        made.make_text(5000, tmp_path / f"{name}.txt")
        made.make_images(8, tmp_path / name)
    assert pl.read_csv(tmp_path / "a.csv").shape == (50, 23)
    files = sorted(file.relative_to(tmp_path / "a") for file in (tmp_path / "a").rglob("*.jpg"))
    assert len(files) == 8
    for one in ("csv", "txt"):
        assert (tmp_path / f"a.{one}").read_bytes() == (tmp_path / f"b.{one}").read_bytes()
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert 5000 <= (tmp_path / "a.txt").stat().st_size < 7000


@pytest.mark.slow
def test_a_table_goes_through_every_stage_on_both_sides() -> None:
    found = scale.measure("table", 400, effort=5)
    for stage in (*scale.STAGES, "whole"):
        assert found.ours[stage].seconds >= 0
        assert 50 < found.ours[stage].megabytes < 2000
    assert set(found.script) == {"prepare", "train", "judge", "whole"}
    assert found.ours["whole"].seconds > found.ours["train"].seconds > 0


def test_sizes_that_were_not_run_are_named_and_goals_judged() -> None:
    found = [size("table", 10**6, 0.5, 200.0), size("table", 10**4, 9.0, 900.0)]
    text = scale.table(found, "table")
    assert "| 1,000,000 | ours | 0.5 s, 1 MB |" in text
    assert "| check 3 s, train 4 s |" in text
    assert "Not run: 100,000, 10,000,000 rows." in text
    assert "Not run: 1,000, 10,000, 100,000 images." in scale.table(found, "images")
    (said,) = scale.goals(found).splitlines()
    assert "check takes 5.0% of the training (goal: at most 10%)" in said
    assert "judge takes 100.0% of the training (goal: at most 5%, missed)" in said
    assert "200 MB (goal: no more than 300 MB of the script)" in said


@pytest.mark.extended
def test_what_was_measured_is_read_back_and_drawn(tmp_path: Path) -> None:
    found = [size("table", 100, 1.0, 9.0), size("table", 1000, 2.0, 9.0), size("text", 9, 1.0, 1.0)]
    file = tmp_path / "found.json"
    assert scale.read_found(file) == []
    file.write_text(scale.to_json(found))
    assert scale.read_found(file) == found
    pictures = [tmp_path / "a" / "one.svg", tmp_path / "b" / "one.svg"]
    for picture in pictures:
        scale.draw(found, picture)
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert b"<svg" in pictures[0].read_bytes()
