"""`data diff`: rows, columns, distributions and labels of two versions of data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from command import CONTRACT, command, inside, write_rows
from real_data import real_data
from trainwright.core.files import read_json
from trainwright.data.sources.provenance import find_revisions
from trainwright.data.sources.source_file import FileVersion
from trainwright.data.statistics.profile import distance, pictures, profile_column
from trainwright.data.versions.snapshot import hash_rows


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_rows(tmp_path / "plain.csv")
    rows = pl.read_csv(tmp_path / "plain.csv")
    rows.with_columns(row_id=pl.int_range(pl.len()) * 3 + 7).write_csv(tmp_path / "rows.csv")
    (tmp_path / "small.yaml").write_text(CONTRACT)
    with inside(tmp_path):
        yield tmp_path


def changed() -> None:
    """Ten rows go, thirty come, five change their city, and one is another class."""
    rows = pl.read_csv("rows.csv")
    new = rows.head(30).with_columns(row_id=pl.col("row_id") + 100_000, age=pl.col("age") + 40)
    kept = rows.slice(10).with_columns(
        city=pl.when(pl.int_range(pl.len()) < 5).then(pl.lit("Nuuk")).otherwise(pl.col("city"))
    )
    pl.concat([kept.sample(fraction=1.0, shuffle=True, seed=1), new]).write_csv("rows.csv")


def diff(*words: str) -> dict[str, Any]:
    ran = command("data", "diff", *words, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def test_a_file_beside_a_run_is_read_as_the_run_read_its_own(project: Path) -> None:
    text = Path("plain.csv").read_text().replace(",", ";").replace(".", ",")
    Path("rows.csv").write_text(text)
    columns = [name for name, dtype in pl.read_csv("plain.csv").schema.items() if dtype.is_float()]
    numbers = ", ".join(f"{name}: decimal_comma" for name in columns)
    reading = f"data.reading={{numbers: {{{numbers}}}, cache: kept}}"
    ran = command("train", "small.yaml", "--run", "one", "--set", reading)
    assert ran.code in (0, 3), ran.err
    elsewhere = Path("elsewhere")
    elsewhere.mkdir()
    Path("rows.csv").rename(elsewhere / "rows.csv")
    found = diff("one", "elsewhere/rows.csv")
    assert [each.name for each in elsewhere.iterdir()] == ["rows.csv"]
    assert found["row_changes"]["same"] == 300
    assert all(column["distance"] == 0 for column in found["columns"])


@pytest.mark.extended
def test_two_runs_whose_file_was_written_over(project: Path) -> None:
    assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    same = diff("one", "one")
    assert same["row_changes"]["same"] == 300
    assert all(column["distance"] == 0 for column in same["columns"])
    assert not same["settings"]
    changed()
    words = ("train", "small.yaml", "--run", "two", "--set", "data.split={kind: random}")
    assert command(*words).code in (0, 3)
    found = diff("one", "two")
    assert found["row_changes"] == {
        "added": 30,
        "removed": 10,
        "changed": 5,
        "same": 285,
        "key": "row_id",
        "known": True,
    }
    assert found["rows"] == [300, 320]
    assert found["target"] == "bought"
    assert sum(found["labels"][1].values()) == 320
    assert ["data.split.kind", "stratified", "random"] in found["settings"]
    versions = [
        read_json(Path("runs", run, "data/manifest.json"))["version"] for run in ("one", "two")
    ]
    assert versions[0] != versions[1]
    # From the runs alone or from a file beside one: the same answer.
    beside = diff("one", "rows.csv")
    assert beside["row_changes"] == found["row_changes"]
    assert beside["columns"] == found["columns"]
    back = diff("rows.csv", "one")["row_changes"]
    assert (back["added"], back["removed"], back["changed"]) == (10, 30, 5)


def test_two_files_without_a_key(project: Path) -> None:
    rows = pl.read_csv("plain.csv")
    pl.concat([rows, rows.head(3)]).reverse().write_csv("b.csv")
    found = diff("plain.csv", "b.csv")["row_changes"]
    assert (found["added"], found["removed"], found["changed"], found["key"]) == (3, 0, 0, "")
    keyed = command("data", "diff", "plain.csv", "b.csv", "--key", "age")
    assert keyed.code == 2
    assert "'age' does not identify the rows of plain.csv" in keyed.err
    assert command("data", "diff", "plain.csv", "b.csv", "--key", "none").code == 2
    assert command("data", "diff", "plain.csv", "no-such-run").code == 2


def test_columns_that_come_go_move_and_change_their_type(project: Path) -> None:
    rows = pl.read_csv("rows.csv")
    rows.drop("city").with_columns(
        age=pl.col("age") * 2,
        visits=pl.when(pl.int_range(pl.len()) == 4)
        .then(pl.lit("many"))
        .otherwise(pl.col("visits").cast(pl.String)),
        tall=pl.lit(1),
    ).write_csv("b.csv")
    found = diff("rows.csv", "b.csv")
    assert (found["added_columns"], found["removed_columns"]) == (["tall"], ["city"])
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert kinds == {"age": "moved", "visits": "retyped", "bought": "same", "row_id": "same"}
    shown = command("data", "diff", "rows.csv", "b.csv")
    assert shown.code == 0
    assert "numbers -> words" in shown.out
    assert "columns city" in shown.out
    assert any(bar in shown.out for bar in "▁▂▃▄▅▆▇█")


def test_a_hash_of_a_row_never_changes() -> None:
    frame = pl.DataFrame({"n": [1.5, None, -0.0], "w": ["a", "", None]})
    assert hash_rows(frame).tolist() == HASHES
    other = pl.DataFrame({"w": ["a", "", None], "n": [1.5, None, 0.0]})
    assert hash_rows(other).tolist() == HASHES
    assert (
        hash_rows(pl.DataFrame({"n": [1, 2]})).tolist()
        == hash_rows(pl.DataFrame({"n": [1.0, 2.0]})).tolist()
    )
    swapped = pl.DataFrame({"a": ["x", "y"], "b": ["y", "x"]})
    assert len(set(hash_rows(swapped).tolist())) == 2
    many = hash_rows(pl.DataFrame({"a": np.arange(100_000.0), "b": np.arange(100_000) % 7}))
    assert len(np.unique(many)) == 100_000


HASHES = [14721659515384561217, 12964607608466511958, 3707697217082566725]


def test_the_distance_of_two_columns() -> None:
    random = np.random.default_rng(0)
    one = profile_column(pl.Series("a", random.normal(size=20_000)))
    other = profile_column(pl.Series("a", random.normal(size=20_000) + 1))
    # Two normal distributions a deviation apart: 2 Phi(1/2) - 1 = 0.383.
    assert distance(one, other) == pytest.approx(0.383, abs=0.02)
    assert distance(one, profile_column(pl.Series("a", random.normal(size=20_000)))) < 0.02
    words = [profile_column(pl.Series("a", list(text))) for text in ("aab", "abb", "ccc")]
    assert distance(words[0], words[1]) == pytest.approx(1 / 3)
    assert distance(words[0], words[2]) == pytest.approx(1)
    assert distance(one, words[0]) == 1
    before, after = pictures(one, other)
    assert len(before) == len(after) == 10
    assert before.index("█") < after.index("█")
    empty = profile_column(pl.Series("a", [None, None], dtype=pl.Float64))
    assert distance(empty, empty) == 0
    assert distance(empty, one) == 1


def test_revisions_of_other_tools(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    (tmp_path / "rows.csv.dvc").write_text(
        "outs:\n- md5: 22e2e2a7b5a3bd1e5ebac3aa5a8e44c7\n  size: 9\n  hash: md5\n  path: rows.csv\n"
    )
    log = tmp_path / "lake" / "_delta_log"
    log.mkdir(parents=True)
    about = {"format": {"provider": "parquet"}}
    actions = [{"protocol": {"minReaderVersion": 1}}, {"metaData": about}]
    actions += [{"add": {"path": f"part-{at}.parquet"}} for at in range(2)]
    (log / f"{0:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    for number in range(1, 13):
        (log / f"{number:020d}.json").write_text("{}")
    files = [
        FileVersion("rows.csv", "", 8, 1),
        FileVersion("lake/part-0.parquet", "", 8, 1),
        FileVersion("lake/part-1.parquet", "", 8, 1),
        FileVersion("lakefs://repo/main/rows.parquet", "", 8, 1),
    ]
    found = [one.to_json() for one in find_revisions(files, tmp_path)]
    assert [(one["tool"], one["revision"]) for one in found] == [
        ("dvc", "22e2e2a7b5a3bd1e5ebac3aa5a8e44c7"),
        ("lakefs", "main"),
        ("delta", "12"),
    ]
    assert [one["note"] for one in found] == ["9 bytes there, 8 here", "", ""]


def test_the_manifest_says_which_data_made_the_model(project: Path) -> None:
    Path("rows.csv.dvc").write_text("outs:\n- md5: abc123\n  path: rows.csv\n")
    assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    manifest = read_json(Path("runs/one/data/manifest.json"))
    (file,) = manifest["facts"]["files"]
    assert (file["path"], file["rows"], file["size_bytes"]) == (
        "rows.csv",
        300,
        Path("rows.csv").stat().st_size,
    )
    assert manifest["revisions"] == [
        {"tool": "dvc", "path": "rows.csv", "revision": "abc123", "note": ""}
    ]


@pytest.mark.real_data
def test_bike_sharing_grows_from_one_year_to_the_next(tmp_path: Path) -> None:
    hours = pl.read_csv(real_data("bike-sharing") / "hour.csv")
    with inside(tmp_path):
        for year in (0, 1):
            hours.filter(pl.col("yr") == year).drop("dteday").write_csv(f"{year}.csv")
        found = diff("0.csv", "1.csv", "--key", "instant")
    assert found["row_changes"]["same"] == 0
    distances = {column["name"]: column["distance"] for column in found["columns"]}
    assert distances["cnt"] > 0.2 > 0.05 > distances["hum"] - 0.1
    assert distances["hr"] < 0.02
    means = next(column["mean"] for column in found["columns"] if column["name"] == "cnt")
    assert [round(mean, 1) for mean in means] == [143.8, 234.7]


@pytest.mark.extended
def test_nested_and_endless_cells_are_kept_too(project: Path) -> None:
    rows = pl.read_csv("rows.csv").with_columns(
        tags=pl.Series([["a", "b"]] * 150 + [["c"]] * 150), odd=pl.lit("inf")
    )
    rows.write_parquet("rows.parquet")
    words = ("--set", "data.path=rows.parquet", "--set", "data.exclude=[odd]")
    assert command("train", "small.yaml", "--run", "one", *words).code in (0, 3)
    found = diff("one", "rows.parquet")
    assert (found["row_changes"]["same"], found["row_changes"]["added"]) == (300, 0)
