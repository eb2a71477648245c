"""Columns that stand in the names of folders."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from command import command, inside
from trainwright.contract.sections.data.table_data import TableData
from trainwright.core.errors import DataMistake
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.sources.source_file import partition_of

ROWS = pl.DataFrame(
    {
        "a": range(8),
        "year": ["2023"] * 4 + ["2024"] * 4,
        "city": ["Bern", "Bern", "Zug/See", "Zug/See"] * 2,
    }
)
FILES = {
    "year=2023/city=Bern/part-0": (0, 1),
    "year=2023/city=Zug%2FSee/part-0": (2, 3),
    "year=2024/city=Bern/part-0": (4, 5),
    "year=2024/city=Zug%2FSee/part-0": (6,),
    "year=2024/city=Zug%2FSee/part-1": (7,),
}


def write(folder: Path, suffix: str = ".csv", columns: tuple[str, ...] = ("a",)) -> Path:
    for name, rows in FILES.items():
        file = folder / "rows" / f"{name}{suffix}"
        file.parent.mkdir(parents=True, exist_ok=True)
        part = ROWS[list(rows)].select(columns)
        if suffix == ".csv":
            part.write_csv(file)
        else:
            part.write_parquet(file)
    (folder / "rows" / "_SUCCESS").touch()
    return folder


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("named", ["rows", "rows/**/*{}", "rows/year=*/**", "{}/rows"])
def test_the_names_of_folders_are_columns(named: str, suffix: str, tmp_path: Path) -> None:
    write(tmp_path, suffix)
    named = named.format(suffix) if "*" in named else named.format(tmp_path)
    source = read_source(named, tmp_path)
    assert source.frame.with_columns(pl.col("a").cast(pl.Int64)).equals(ROWS)
    assert len(source.files) == 5
    # A row says where it stands in its own file.
    assert source.place(6).file.endswith("year=2024/city=Zug%2FSee/part-0" + suffix)
    if suffix == ".csv":
        assert source.place(7) == source.place(7).__class__(source.files[4].path, 2)


def test_polars_reads_the_same(tmp_path: Path) -> None:
    write(tmp_path, ".parquet")
    source = read_source("rows", tmp_path).frame
    theirs = pl.read_parquet(tmp_path / "rows", hive_partitioning=True)
    assert source.equals(theirs.with_columns(pl.col("year").cast(pl.String)).select(source.columns))


def test_partitions_in_a_store(tmp_path: Path) -> None:
    pytest.importorskip("fsspec")
    write(tmp_path)
    for named in ("", "/**/*.csv"):
        source = read_source(f"file://{tmp_path}/rows{named}", tmp_path)
        assert source.frame.select("year", "city").equals(ROWS.select("year", "city"))
    (tmp_path / "rows/more.csv").write_text("a\n1\n")
    with pytest.raises(DataMistake, match="beside folders of partitions"):
        read_source(f"file://{tmp_path}/rows", tmp_path)


def test_one_partition_has_its_columns_too(tmp_path: Path) -> None:
    write(tmp_path)
    for named in ("rows/year=2024", "rows/year=2024/city=Bern/part-0.csv"):
        assert set(read_source(named, tmp_path).frame["year"]) == {"2024"}


def test_a_value_of_a_partition_is_part_of_the_hash(tmp_path: Path) -> None:
    write(tmp_path)
    first = read_source("rows", tmp_path)
    (tmp_path / "rows/year=2023").rename(tmp_path / "rows/year=2022")
    other = read_source("rows", tmp_path)
    assert other.version.sha256 != first.version.sha256
    assert [file.file_sha256 for file in other.files] == [file.file_sha256 for file in first.files]
    assert other.frame["year"].to_list()[:4] == ["2022"] * 4


def test_a_partition_without_a_value_is_missing(tmp_path: Path) -> None:
    for name in ("a=__HIVE_DEFAULT_PARTITION__", "a=1"):
        (tmp_path / "rows" / name).mkdir(parents=True)
        (tmp_path / "rows" / name / "x.csv").write_text("b\n1\n")
    assert read_source("rows", tmp_path).frame["a"].to_list() == ["1", None]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_column_that_stands_in_the_file_too(suffix: str, tmp_path: Path) -> None:
    write(tmp_path, suffix, ("a", "year"))
    found = read_source("rows", tmp_path).frame
    assert found.columns == ["a", "year", "city"]
    assert found["year"].to_list() == ROWS["year"].to_list()
    (tmp_path / "rows/year=2023").rename(tmp_path / "rows/year=2022")
    with pytest.raises(DataMistake) as caught:
        read_source("rows", tmp_path)
    problem = caught.value.problems[0]
    assert "'year' has other values than the folder" in problem.message
    assert problem.place.file == f"rows/year=2022/city=Bern/part-0{suffix}"
    assert problem.path == "data.path"


def test_numbers_of_a_file_are_held_against_the_name_as_numbers(tmp_path: Path) -> None:
    for month, value in (("01", 1), ("02", 2)):
        (tmp_path / f"rows/month={month}").mkdir(parents=True)
        pl.DataFrame({"month": [value]}).write_parquet(tmp_path / f"rows/month={month}/x.parquet")
    assert read_source("rows", tmp_path).frame["month"].to_list() == [1, 2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rows/x.csv", "beside folders of partitions"),
        ("rows/year=2024/x.csv", "beside folders of partitions"),
        ("rows/year=2025/x.csv", "the columns of this part are not those of the first"),
    ],
)
def test_partitions_that_are_not_all_alike(name: str, message: str, tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(DataMistake, match=message):
        read_source("rows", tmp_path)


def test_a_partition_that_leads_out_is_refused(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "else").mkdir()
    (tmp_path / "else/x.csv").write_text("a\n1\n")
    (tmp_path / "rows/year=2025").mkdir()
    (tmp_path / "rows/year=2025/city=Bern").symlink_to(tmp_path / "else")
    with pytest.raises(DataMistake, match="leads out of the folder"):
        read_source("rows", tmp_path)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("rows/x.csv", {}),
        ("rows/a=1.csv", {}),
        ("a=1/b=/x.csv", {"a": "1", "b": None}),
        ("a=1/a=2/x.csv", {"a": "2"}),
        ("=1/a=b=c/x.csv", {}),
        ("s3://bucket/a=1%20b/x.csv?c=1/d=2", {"a": "1 b"}),
    ],
)
def test_what_a_path_names(written: str, values: dict[str, str | None]) -> None:
    assert partition_of(written) == values


@pytest.mark.extended
def test_from_init_to_a_prediction(tmp_path: Path) -> None:
    with inside(tmp_path):
        for year in (2021, 2022, 2023):
            for side in (0, 1):
                folder = tmp_path / f"rows/year={year}/side={side}"
                folder.mkdir(parents=True)
                rows = pl.DataFrame({"a": [(7 * at + side) % 11 for at in range(40)]})
                rows = rows.with_columns(
                    y=pl.when(pl.col("a") > 5 * side).then(pl.lit("up")).otherwise(pl.lit("down"))
                )
                rows.write_parquet(folder / "part-0.parquet")
        made = command("init", "rows", "--target", "y")
        assert made.code == 0, made.err
        section = TableData(path="rows", target="y")
        raw = read_table(section, tmp_path)
        assert {column.name: column.kind for column in raw.columns}["year"] == "numeric"
        assert raw.positions["train"].tolist() == list(range(240))
        words = ("--run", "a", "--set", "model={kind: linear}", "--set", "metric.resamples=100")
        ran = command("train", "contract.yaml", *words)
        assert ran.code in (0, 3), ran.err
        told = command("predict", "a", "rows/year=2022", "-o", "out.csv")
        assert told.code == 0, told.err
        assert pl.read_csv("out.csv").height == 80


@pytest.mark.parametrize(
    "values",
    [pl.Series("k", ["2024-01-01", "2024-01-02"]).str.to_date(), pl.Series("k", [True, False])],
)
def test_dates_and_truths_of_a_file_are_held_against_the_name(
    values: pl.Series, tmp_path: Path
) -> None:
    frame = pl.DataFrame({"k": values, "a": [1, 2]})
    for row in frame.iter_slices(1):
        place = tmp_path / f"rows/k={row['k'].cast(pl.String)[0]}"
        place.mkdir(parents=True)
        row.write_parquet(place / "x.parquet")
    found = read_source("rows", tmp_path).frame
    assert found.sort("a")["k"].to_list() == values.to_list()
    next((tmp_path / "rows").iterdir()).rename(tmp_path / "rows/k=2020-02-02")
    with pytest.raises(DataMistake, match="other values than the folder"):
        read_source("rows", tmp_path)
