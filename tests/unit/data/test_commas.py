"""Numbers with commas: `1.234,5` and `1,234.5` are what a person means by them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from faults.tiers import times
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake
from trainwright.data.columns.resolve_doubts import with_doubts
from trainwright.data.formats.number_formats import how_written
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.planner.init.first_contract import propose_contract

DECIMAL = Reading(numbers={"x": "decimal_comma"}, cache="off")
THOUSANDS = Reading(numbers={"x": "thousands_comma"}, cache="off")


def cells(folder: Path, column: list[str], reading: Reading) -> list[str | None]:
    (folder / "a.csv").write_text("\n".join(["x;other", *(f"{cell};w" for cell in column)]))
    return read_source("a.csv", folder, reading=reading).frame["x"].to_list()


def test_a_decimal_comma_becomes_a_point(tmp_path: Path) -> None:
    written = ["1,5", "-0,25", " 3,0 ", "1.234,5", "1.234.567,89", "12", "1.200", ",5", "+7,1"]
    meant = ["1.5", "-0.25", "3.0", "1234.5", "1234567.89", "12", "1200", ".5", "+7.1"]
    assert cells(tmp_path, written, DECIMAL) == meant
    assert cells(tmp_path, ["1,5E+03", "2e3"], DECIMAL) == ["1.5E+03", "2e3"]


def test_blanks_and_apostrophes_between_thousands(tmp_path: Path) -> None:
    written = ["1 234,5", "1\u00a0234,5", "1\u202f234\u202f567,5", "1'234,5", "1\u2019234,5"]
    meant = ["1234.5", "1234.5", "1234567.5", "1234.5", "1234.5"]
    assert cells(tmp_path, written, DECIMAL) == meant


def test_what_does_not_look_like_a_number_stays(tmp_path: Path) -> None:
    words = ["a,b", "Bern 3,5", "12 kg", "n/a", "-"]
    assert cells(tmp_path, words, DECIMAL) == words
    assert cells(tmp_path, words, THOUSANDS) == words


def test_commas_of_thousands_go(tmp_path: Path) -> None:
    written = ["1,234", "-1,234,567.5", "950", "0.5", "1.234", "1,5x", "x"]
    meant = ["1234", "-1234567.5", "950", "0.5", "1.234", "1,5x", "x"]
    assert cells(tmp_path, written, THOUSANDS) == meant


def test_parentheses_of_accounting_are_a_minus(tmp_path: Path) -> None:
    written = ["(1,234.50)", "1,234.5", "(7)", " ( 8.25 ) ", "-3", "(note)", "(1) x", "0"]
    meant = ["-1234.50", "1234.5", "-7", "-8.25", "-3", "(note)", "(1) x", "0"]
    reading = Reading(numbers={"x": "accounting"}, cache="off")
    assert cells(tmp_path, written, reading) == meant
    assert cells(tmp_path, ["(1,234.50)"], THOUSANDS) == ["(1,234.50)"]
    with pytest.raises(DataMistake, match="not all written as in accounting"):
        cells(tmp_path, ["(1.234,50)"], reading)


@pytest.mark.parametrize("other", ["{}.82", "{},000.5"])
@pytest.mark.parametrize("every", [2, 25])
def test_accounting_is_proposed_and_read(tmp_path: Path, other: str, every: int) -> None:
    rows = [f"({at},500.25)" if at % every == 1 else other.format(at) for at in range(1, 101)]
    meant = float(other.format(2).replace(",", ""))
    text = "\n".join(["x;y", *(f"{cell};{at % 2}" for at, cell in enumerate(rows))])
    (tmp_path / "a.csv").write_text(text)
    proposed = propose_contract(str(tmp_path / "a.csv"), "y", tmp_path)
    assert "x: accounting  # (1,234.5) is -1234.5" in proposed
    raw = read_table(TableData(path="a.csv", target="y"), tmp_path)
    assert raw.facts.doubts[0].numbers == "accounting"
    assert raw.frames["train"]["x"][:2].to_list() == [-1500.25, meant]


@pytest.mark.parametrize("column", [["(1)", "(2)"], ["(a)", "1"], ["(555) 123-4567", "1"]])
def test_other_parentheses_are_no_accounting(column: list[str]) -> None:
    assert how_written(pl.Series(column * 50)) == "plain"


def test_negative_amounts_beside_a_unit(tmp_path: Path) -> None:
    rows = ["($1,500.25)", "$(7)", "$1,000", "(8) USD"] * 25
    pl.DataFrame({"x": rows, "y": ["0", "1", "1", "0"] * 25}).write_csv(tmp_path / "a.csv")
    section = TableData(path="a.csv", target="y")
    raw = read_table(section, tmp_path)
    assert raw.frames["train"]["x"][:4].to_list() == [-1500.25, -7, 1000, -8]
    again = read_table(with_doubts(section, raw.facts.doubts), tmp_path)
    assert again.frames["train"]["x"][:4].to_list() == [-1500.25, -7, 1000, -8]


@pytest.mark.parametrize("name", ["train.csv", "val.csv", "new.csv"])
@pytest.mark.parametrize(
    ("reading", "cell", "meant"),
    [(DECIMAL, "1.234", "1234"), (DECIMAL, "1,234", "1.234"), (THOUSANDS, "1,234", "1234")],
)
@pytest.mark.parametrize("beside", [[], ["12"], ["2.500"], ["n/a"], [""], ["other.1"]])
def test_a_cell_is_read_alike_whatever_stands_beside_it(
    tmp_path: Path, name: str, reading: Reading, cell: str, meant: str, beside: list[str]
) -> None:
    (tmp_path / name).write_text("\n".join(["x;y", f"{cell};w", *(f"{b};w" for b in beside)]))
    assert read_source(name, tmp_path, reading=reading).frame["x"][0] == meant


@pytest.mark.parametrize(
    ("wrong", "reading"),
    [
        ("2.5", DECIMAL),
        ("0.123", DECIMAL),
        ("1.5e3", DECIMAL),
        ("1,234.5", DECIMAL),
        ("1,234,567", DECIMAL),
        ("1.234 567", DECIMAL),
        ("1.234'567,5", DECIMAL),
        ("01.02.2023", DECIMAL),
        ("12 34,5", DECIMAL),
        ("12,5", THOUSANDS),
        ("1.234,5", THOUSANDS),
        ("1.234.567", THOUSANDS),
    ],
)
@pytest.mark.parametrize("beside", ["1,234", "x", "7"])
def test_a_number_written_in_another_way_is_refused_with_its_line(
    tmp_path: Path, wrong: str, reading: Reading, beside: str
) -> None:
    with pytest.raises(DataMistake) as caught:
        cells(tmp_path, [beside, wrong, beside], reading)
    (problem,) = caught.value.problems
    assert problem.path == "x"
    assert problem.found == repr(wrong)
    assert problem.place.line == 3


@settings(max_examples=times(75, 300), deadline=None)
@given(st.text("0123456789.,' +-e\u00a0\u2019", min_size=1, max_size=9))
def test_no_cell_keeps_a_point_that_the_contract_says_is_none(cell: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            (read,) = cells(Path(folder), [f"{cell}"], DECIMAL)
        except DataMistake:
            return
    number = pl.Series([read]).str.strip_chars().cast(pl.Float64, strict=False)[0]
    if number is None or cell.strip() == read:
        assert number is None or not set(cell) & {".", ","}
        return
    whole, _, rest = cell.strip().partition(",")
    bare = "".join(mark for mark in whole if mark in "0123456789+-e")
    assert number == float(f"{bare}.{rest}" if rest else bare)


@pytest.mark.parametrize("text", ["192.168.100.200", "100.200", "100 200", "1,5", "1.5"])
def test_columns_that_are_not_named_stay(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(f"x;other\n1,5;{text}\n")
    frame = read_source("a.csv", tmp_path, reading=DECIMAL).frame
    assert frame.row(0) == ("1.5", text)


def test_parts_and_the_validation_file_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for i, x in enumerate(["1,5", "1.234"]):
        (tmp_path / "parts" / f"{i}.csv").write_text(f"x;y\n{x};a\n2,5;b\n")
    (tmp_path / "val.csv").write_text("x;y\n1.234;a\n")
    section = TableData(path="parts", val_path="val.csv", target="y", reading=DECIMAL)
    frames = read_table(section, tmp_path).frames
    assert frames["train"]["x"].to_list() == [1.5, 2.5, 1234, 2.5]
    assert frames["validation"]["x"].to_list() == [1234]
    (tmp_path / "val.csv").write_text("x;y\n1.5;a\n")
    with pytest.raises(DataMistake):
        read_table(section, tmp_path)


def test_a_change_of_the_setting_reads_a_cached_file_anew(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x;y\n1,234;a\n")
    read = []
    for way in ({}, {"x": "decimal_comma"}, {"x": "thousands_comma"}, {"y": "thousands_comma"}):
        reading = Reading.model_validate({"numbers": way, "cache": str(tmp_path / "cache")})
        read.append(read_source("a.csv", tmp_path, reading=reading).frame["x"][0])
    assert read == ["1,234", "1.234", "1234", "1,234"]


def test_a_name_in_unicode_and_a_missing_cell(tmp_path: Path) -> None:
    name = "Größe in m².x"
    (tmp_path / "a.csv").write_text(f"{name};y\n1,5;a\n;b\n2,25;c\n")
    reading = Reading(numbers={name: "decimal_comma"}, cache="off")
    frame = read_source("a.csv", tmp_path, reading=reading).frame
    assert frame[name].to_list() == ["1.5", None, "2.25"]


def test_a_named_column_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("z;y\n1,5;a\n2,5;b\n")
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path="a.csv", target="y", reading=DECIMAL), tmp_path)
    assert caught.value.problems[0].path == "data.reading.numbers.x"


@pytest.mark.parametrize(
    ("column", "look"),
    [
        (["1,5", "2,25", "3"], "decimal_comma"),
        (["1.234,5", "1.200"], "decimal_comma"),
        (["0,234", "1,234", None], "decimal_comma"),
        (["1,234", "950", "12,500.5"], "thousands_comma"),
        (["1,234,567", "1,234", "2,500"], "thousands_comma"),
        (["1,234", "1.5"], "thousands_comma"),
        (["1,234", "2,500", "950"], "either"),
        (["1,234", "1.234"], "either"),
        (["1.200", "950", "12.500"], "points"),
        (["1.5", "2.5"], "plain"),
        (["1.234", "0.500"], "plain"),
        (["1,5", "1,234.5"], "plain"),
        (["1,5", "2.5"], "plain"),
        (["a,b", "1,5", "c"], "plain"),
        (["12", "7"], "plain"),
        ([" ", ""], "plain"),
    ],
)
def test_how_a_column_looks(column: list[str | None], look: str) -> None:
    assert how_written(pl.Series(column)) == look


def german(folder: Path, name: str = "a.csv", **columns: list[str]) -> str:
    (folder / name).parent.mkdir(exist_ok=True)
    rows = [f"{i},{i * 7 % 100:02d};{'ja' if i % 3 else 'nein'}" for i in range(60)]
    more = [
        "".join(f";{column[i % len(column)]}" for column in columns.values()) for i in range(60)
    ]
    head = ";".join(["Umsatz", "Kauf", *columns])
    text = "\n".join([head, *(row + rest for row, rest in zip(rows, more, strict=True))])
    (folder / name).write_text(text)
    return propose_contract(str(folder / name), "Kauf", folder)


def numbers_of(text: str) -> dict[str, str]:
    written: dict[str, str] = YAML(typ="safe").load(text)["data"].get("reading", {}).get("numbers")
    return written


def test_init_reads_decimal_commas_as_numbers(tmp_path: Path) -> None:
    text = german(tmp_path)
    assert numbers_of(text) == {"Umsatz": "decimal_comma"}
    assert "exclude" not in text
    assert "positive: ja" in text


def test_init_says_which_columns_are_in_doubt(tmp_path: Path) -> None:
    text = german(tmp_path, a=["1,234", "2,500"], b=["1.200", "950"], c=["1.5", "2.25"])
    assert numbers_of(text) == dict.fromkeys(["Umsatz", "a", "b"], "decimal_comma")
    assert "a: decimal_comma  # in doubt" in text
    assert "b: decimal_comma  # in doubt" in text


def test_init_says_what_it_takes_commas_for_where_nothing_tells(tmp_path: Path) -> None:
    rows = [f"{1 + i % 9},{234 + i};{1 + i % 8}.{120 + i};{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["x;z;y", *rows]))
    text = propose_contract(str(tmp_path / "a.csv"), "y", tmp_path)
    assert numbers_of(text) == {"x": "thousands_comma"}
    assert "though 1.234 as a decimal_comma" in text
    assert "z:" not in text


def test_init_takes_no_side_where_the_columns_disagree(tmp_path: Path) -> None:
    text = german(tmp_path, a=["1,234.5", "2,500"], b=["1,234", "2,500"])
    assert numbers_of(text) == {
        "Umsatz": "decimal_comma",
        "a": "thousands_comma",
        "b": "thousands_comma",
    }
    assert "though 1.234 as a decimal_comma" in text


def test_init_looks_into_a_folder_of_parts(tmp_path: Path) -> None:
    german(tmp_path, "parts/one.csv")
    text = propose_contract(str(tmp_path / "parts"), "Kauf", tmp_path)
    assert numbers_of(text) == {"Umsatz": "decimal_comma"}


def fix_for(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    columns = {"x": Column(kind="numeric")}
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path=name, target="y", columns=columns), folder)
    return caught.value.problems[0].fix


def test_numbers_with_commas_in_a_numeric_column_name_the_setting(tmp_path: Path) -> None:
    fix = fix_for(tmp_path, "a.csv", "x;y\n1,5;a\n2,5;b\n3,5;a\n")
    assert "data.reading.numbers: {x: decimal_comma}" in fix
    fix = fix_for(tmp_path, "b.csv", "x;y\n1,234;a\n2,500;b\n3;a\n")
    assert "decimal_comma" in fix
    assert "thousands_comma" in fix


def test_the_setting_is_named_for_json_lines_too(tmp_path: Path) -> None:
    rows = ['{"x": "1,5", "y": "a"}', '{"x": "2,5", "y": "b"}']
    assert "reading.numbers" in fix_for(tmp_path, "a.jsonl", "\n".join(rows))


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["1.234,5", "2,5", "w"])])
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_text_of_files_with_types_is_rewritten(
    tmp_path: Path, name: str, kind: pl.DataType
) -> None:
    frame = pl.DataFrame({"x": ["1.234,5", None, "2,5", "w"], "y": ["1,5"] * 4})
    frame = frame.with_columns(pl.col("x").cast(kind))
    write = frame.write_parquet if name.endswith("parquet") else frame.write_ipc
    write(tmp_path / name)
    found = read_source(name, tmp_path, reading=DECIMAL).frame
    assert found["x"].to_list() == ["1234.5", None, "2.5", "w"]
    assert found["y"].to_list() == ["1,5"] * 4


def test_a_bare_number_of_json_is_what_it_is(tmp_path: Path) -> None:
    written = ['"1.234"', "1.234", "1234.5", "-1.5e-3", "7", '"7"', "null", '"w"', "NaN"]
    (tmp_path / "a.jsonl").write_text("".join(f'{{"x": {cell}, "y": 1.5}}\n' for cell in written))
    found = read_source("a.jsonl", tmp_path, reading=DECIMAL).frame
    meant = ["1234", "1.234", "1234.5", "-1.5e-3", "7", "7", None, "w", "NaN"]
    assert found["x"].to_list() == meant
    assert found["y"].to_list() == ["1.5"] * len(written)
    found = read_source("a.jsonl", tmp_path, reading=THOUSANDS).frame
    assert found["x"].to_list()[:4] == ["1.234", "1.234", "1234.5", "-1.5e-3"]


def test_a_wrong_number_of_a_file_without_lines_is_named_by_its_row(tmp_path: Path) -> None:
    pl.DataFrame({"x": ["1,5", "2.5"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataMistake, match="not all written") as caught:
        read_source("a.parquet", tmp_path, reading=DECIMAL)
    assert caught.value.problems[0].found == "'2.5', first in row 2"


def test_another_setting_is_another_entry_of_the_cache(tmp_path: Path) -> None:
    pl.DataFrame({"x": ["1,234"]}).write_parquet(tmp_path / "a.parquet")
    meant = {"decimal_comma": "1.234", "thousands_comma": "1234"}
    for _ in range(2):
        for way, number in meant.items():
            reading = Reading.model_validate({"numbers": {"x": way}, "cache": "kept"})
            assert read_source("a.parquet", tmp_path, reading=reading).frame["x"][0] == number


def test_the_setting_is_refused_where_it_does_nothing(tmp_path: Path) -> None:
    pl.DataFrame({"x": [1.5, 2.5], "y": ["a", "b"]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataMistake) as caught:
        read_table(TableData(path="a.parquet", target="y", reading=DECIMAL), tmp_path)
    assert caught.value.problems[0].path == "data.reading.numbers.x"


@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet"])
def test_init_proposes_it_for_every_format(tmp_path: Path, name: str) -> None:
    frame = pl.DataFrame({"Umsatz": ["1.234,5", "2,5"] * 30, "Kauf": ["ja", "nein"] * 30})
    write = frame.write_ndjson if name.endswith("jsonl") else frame.write_parquet
    write(tmp_path / name)
    text = propose_contract(str(tmp_path / name), "Kauf", tmp_path)
    assert numbers_of(text) == {"Umsatz": "decimal_comma"}
