"""Mistakes inside columns, the target, and between files."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from trainwright.contract.sections.data.split import AutoSplit, GroupSplit, Split, TimeSplit
from trainwright.contract.sections.data.table_data import Column, TableData
from trainwright.core.errors import DataMistake, Problem
from trainwright.data.read_table import RawTable, read_table


def rows(*lines: str, repeat: int = 1) -> str:
    return "\n".join([lines[0], *lines[1:] * repeat]) + "\n"


def read(
    folder: Path,
    text: str,
    target: str = "y",
    columns: dict[str, Column] | None = None,
    split: Split | None = None,
) -> RawTable:
    (folder / "a.csv").write_text(text)
    section = TableData(
        path="a.csv", target=target, columns=columns or {}, split=split or AutoSplit()
    )
    return read_table(section, folder)


def problems(folder: Path, text: str, **more: object) -> list[Problem]:
    with pytest.raises(DataMistake) as caught:
        read(folder, text, **more)  # type: ignore[arg-type]
    assert all(problem.fix for problem in caught.value.problems)
    return list(caught.value.problems)


def kinds(raw: RawTable) -> dict[str, str]:
    return {column.name: column.kind for column in raw.columns}


def test_one_class(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, rows("a,y", "1,no", "2,no"))
    assert problem.path == "y"
    assert "same value" in problem.message


def test_an_absent_target_names_the_nearest_column(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, rows("a,income", "1,n", "2,y"), target="incone")
    assert problem.path == "data.target"
    assert problem.fix == "did you mean 'income'?"


def test_every_unknown_name_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(rows("age,income", "1,n", "2,y"))
    section = TableData(
        path="a.csv",
        target="Income",
        exclude=("agee",),
        columns={"incom": Column()},
        split=GroupSplit(kind="group", column="person"),
    )
    with pytest.raises(DataMistake) as caught:
        read_table(section, tmp_path)
    paths = [problem.path for problem in caught.value.problems]
    assert paths == ["data.target", "data.exclude.0", "data.columns.incom", "data.split.column"]


def test_a_target_that_is_missing_everywhere(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, rows("a,y", "1,", "2,NA"))
    assert "missing in every row" in problem.message


def test_a_target_that_is_missing_in_some_rows(tmp_path: Path) -> None:
    text = rows("a,y", "1,no", "2,", "3,yes", "4,?")
    (problem,) = problems(tmp_path, text)
    assert problem.found == "lines 3, 5"
    assert problem.place.line == 3
    assert "missing_target: drop" in problem.fix


def test_rows_without_target_are_dropped_and_counted_when_asked(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(rows("a,y", "1,no", "2,", "3,yes", "4,?", "5,no"))
    raw = read_table(TableData(path="a.csv", target="y", missing_target="drop"), tmp_path)
    assert raw.frames["train"]["a"].to_list() == [1, 3, 5]
    assert raw.positions["train"].tolist() == [0, 2, 4]
    assert raw.facts.target.missing == 2
    assert any("2 rows" in note for note in raw.notes)


def test_types_are_those_of_the_rows_with_a_target(tmp_path: Path) -> None:
    """A value that only rows without a target have makes no column a word, a date or a feature."""
    lines = [f"{1 + row % 7},,c,{'yes' if row % 2 else 'no'}" for row in range(40)]
    lines[5], lines[9] = "unknown,3.5,d,", "n.a.,4.5,e,"
    (tmp_path / "a.csv").write_text(rows("a,later,site,y", *lines))
    raw = read_table(TableData(path="a.csv", target="y", missing_target="drop"), tmp_path)
    assert kinds(raw) == {"a": "numeric", "later": "ignored", "site": "ignored"}
    assert [column.missing for column in raw.columns] == [0, 38, 0]
    assert raw.positions["train"].tolist() == [row for row in range(40) if row not in (5, 9)]


def test_problems_name_the_lines_of_the_file_where_rows_were_dropped(tmp_path: Path) -> None:
    text = rows("a,y", "1,", "2,yes", "3,", *["4,no", "5,yes"] * 20, "x,no")
    (tmp_path / "a.csv").write_text(text)
    numbers = {"a": Column(kind="numeric")}
    section = TableData(path="a.csv", target="y", missing_target="drop", columns=numbers)
    with pytest.raises(DataMistake) as caught:
        read_table(section, tmp_path)
    (problem,) = caught.value.problems
    assert "line 45" in problem.found
    assert problem.place.line == 45


def test_a_column_without_values_is_left_out_and_said(tmp_path: Path) -> None:
    raw = read(tmp_path, rows("a,b,y", "1,,no", "2,NA,yes"))
    (column,) = (column for column in raw.columns if column.name == "b")
    assert column.kind == "ignored"
    assert "missing in every training row" in column.reason
    assert any(note.startswith("b excluded") for note in raw.notes)


def test_nan_in_a_feature_is_missing(tmp_path: Path) -> None:
    raw = read(tmp_path, rows("a,y", "1,no", "NaN,yes", "nAn,no"))
    assert raw.frames["train"]["a"].to_list() == [1.0, None, None]
    pl.DataFrame({"a": [1.0, float("nan")], "y": ["n", "y"]}).write_parquet(tmp_path / "a.parquet")
    raw = read_table(TableData(path="a.parquet", target="y"), tmp_path)
    assert raw.frames["train"]["a"].to_list() == [1.0, None]


@pytest.mark.parametrize("spelling", ["inf", "-inf", "Infinity", "1e39"])
def test_infinite_features_are_refused_with_their_rows(tmp_path: Path, spelling: str) -> None:
    text = rows("a,y", "1,no", f"{spelling},yes", "3,no")
    raw = read(tmp_path, text)
    assert raw.frames["train"]["a"].to_list() == [1.0, None, 3.0]
    assert "infinite or too large" in raw.facts.doubts[0].reason
    (problem,) = problems(tmp_path, text, columns={"a": Column(kind="numeric")})
    assert problem.path == "a"
    assert problem.place.line == 3
    assert "infinite" in problem.message


def test_infinite_features_in_a_typed_file(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": [1.0, float("-inf")], "y": ["n", "y"]})
    frame.write_parquet(tmp_path / "a.parquet")
    written = {"a": Column(kind="numeric")}
    with pytest.raises(DataMistake, match="infinite") as caught:
        read_table(TableData(path="a.parquet", target="y", columns=written), tmp_path)
    assert "row 2" in caught.value.problems[0].found


@pytest.mark.parametrize(("value", "message"), [("inf", "infinite"), ("nan", "missing")])
def test_a_numeric_target_that_is_not_finite(tmp_path: Path, value: str, message: str) -> None:
    lines = [f"{i},{i * 1.5}" for i in range(30)]
    (problem,) = problems(tmp_path, rows("a,y", *lines, f"31,{value}"))
    assert problem.path == "y"
    assert message in problem.message
    assert problem.place.line == 32


def test_numbers_mixed_with_a_few_words(tmp_path: Path) -> None:
    lines = [f"{i * 3},{i % 2}" for i in range(18)]
    text = rows("a,y", *lines, "unknown,1", "-,0")
    assert read(tmp_path, text).frames["train"]["a"].to_list()[-2:] == [None, None]
    (problem,) = problems(tmp_path, text, columns={"a": Column(kind="numeric")})
    assert problem.path == "a"
    assert problem.found == "'unknown', '-' in lines 20, 21"
    assert "data.missing_values" in problem.fix
    raw = read(tmp_path, text, columns={"a": Column(kind="categorical")})
    assert kinds(raw) == {"a": "categorical"}
    raw = read(tmp_path, text, columns={"a": Column(values={"unknown": "", "-": "7"})})
    assert raw.frames["train"]["a"].to_list()[-2:] == [None, 7.0]


def test_fewer_numbers_than_words_are_categories(tmp_path: Path) -> None:
    assert kinds(read(tmp_path, rows("a,y", "1,n", "x,y", "2,n"))) == {"a": "categorical"}


def test_dates_that_can_be_read_two_ways(tmp_path: Path) -> None:
    text = rows("d,y", "01/02/2020,n", "03/04/2020,y")
    (doubt,) = read(tmp_path, text).facts.doubts
    assert "it could also be" in doubt.reason
    (problem,) = problems(tmp_path, text, columns={"d": Column(kind="datetime")})
    assert "%d/%m/%Y or %m/%d/%Y" in problem.found
    raw = read(tmp_path, text, columns={"d": Column(format="%m/%d/%Y")})
    assert str(raw.frames["train"]["d"][0]) == "2020-01-02 00:00:00"


def test_dates_mixed_with_a_few_words(tmp_path: Path) -> None:
    lines = [f"2020-01-{i + 1:02d},{i % 2}" for i in range(18)]
    text = rows("d,y", *lines, "2020-02-30,1", "soon,0")
    assert read(tmp_path, text).frames["train"]["d"].to_list()[-2:] == [None, None]
    (problem,) = problems(tmp_path, text, columns={"d": Column(kind="datetime")})
    assert (problem.path, problem.found) == ("d", "'2020-02-30', 'soon' in lines 20, 21")


def test_a_text_is_read_as_one_where_the_contract_says_so(tmp_path: Path) -> None:
    lines = [f"the {word} walks over the bridge again,{at % 2}" for at, word in enumerate("abcdef")]
    found = read(tmp_path, rows("a,y", *lines), columns={"a": Column(kind="text")})
    assert [column.kind for column in found.columns] == ["text"]


def test_problems_of_all_columns_come_at_once(tmp_path: Path) -> None:
    lines = [f"{i},{i},{i % 2}" for i in range(18)]
    written = {"a": Column(kind="numeric"), "b": Column(kind="numeric")}
    found = problems(tmp_path, rows("a,b,y", *lines, "x,inf,"), columns=written)
    assert [problem.path for problem in found] == ["a", "b", "y"]


def two_files(folder: Path, train: str, test: str, **columns: Column) -> RawTable:
    (folder / "train.csv").write_text(train)
    (folder / "test.csv").write_text(test)
    section = TableData(train_path="train.csv", test_path="test.csv", target="y", columns=columns)
    return read_table(section, folder)


def test_a_class_that_training_never_sees(tmp_path: Path) -> None:
    train, test = rows("a,y", "1,<=50K", "2,>50K"), rows("a,y", "1,<=50K.", "2,>50K")
    with pytest.raises(DataMistake) as caught:
        two_files(tmp_path, train, test)
    (problem,) = caught.value.problems
    assert "'<=50K.'" in problem.found
    assert problem.fix.endswith('data.columns.y.values: {"<=50K.": "<=50K"}')
    assert str(problem.place) == "test.csv:2"
    raw = two_files(tmp_path, train, test, y=Column(values={"<=50K.": "<=50K"}))
    assert raw.frames["test"]["y"].to_list() == ["<=50K", ">50K"]
    assert raw.facts.given == {"test"}
    assert raw.facts.part_rows == {"train": 2, "test": 2}


def test_a_test_file_that_lacks_columns(tmp_path: Path) -> None:
    with pytest.raises(DataMistake) as caught:
        two_files(tmp_path, rows("a,b,y", "1,2,n", "2,3,y"), rows("c,b", "1,2"))
    (problem,) = caught.value.problems
    assert problem.path == "data.test_path"
    assert problem.found == "no 'a', 'y'"


def test_other_files_are_typed_as_the_training_file_was(tmp_path: Path) -> None:
    train = rows("a,b,y", "x,1.0,n", "y,2,y")
    with pytest.raises(DataMistake) as caught:
        two_files(tmp_path, train, rows("b,a,y", "two,5,n"))
    (problem,) = caught.value.problems
    assert (problem.path, problem.found) == ("b", "'two' in line 2")
    raw = two_files(tmp_path, train, rows("b,a,y", "3,5,n"))
    assert raw.frames["test"].select("a", "b").rows() == [("5", 3.0)]


def test_the_kind_of_the_target(tmp_path: Path) -> None:
    few = read(tmp_path, rows("a,y", *[f"{i * 3},{i % 20}.0" for i in range(60)]))
    assert few.facts.target.kind == "classes"
    assert few.facts.target.classes["19"] == 3
    many = read(tmp_path, rows("a,y", *[f"{i * 3},{i % 21}.0" for i in range(60)]))
    assert many.facts.target.kind == "numbers"
    written = read(
        tmp_path,
        rows("a,y", *[f"{i * 3},{i % 21}" for i in range(60)]),
        columns={"y": Column(kind="categorical")},
    )
    assert written.facts.target.kind == "classes"


def test_float_and_text_labels_are_the_same_classes(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1, 2, 3], "y": [0.0, 1.0, 1.0]}).write_parquet(tmp_path / "a.parquet")
    typed = read_table(TableData(path="a.parquet", target="y"), tmp_path)
    text = read(tmp_path, rows("a,y", "1,0.0", "2,1", "3,1.0"))
    assert dict(typed.facts.target.classes) == dict(text.facts.target.classes) == {"0": 1, "1": 2}


def test_nothing_left_to_learn_from(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, rows("a,y", "5,n", "5,y"))
    assert "no column is left" in problem.message
    assert problem.kind == "no_feature"
    assert "constant" in problem.found


def test_a_date_that_splits_stays_a_feature_and_a_number_does_not(tmp_path: Path) -> None:
    text = rows("d,t,b,y", "2020-01-01,1,4,n", "2020-01-02,2,5,y")
    by_date = read(tmp_path, text, split=TimeSplit(kind="time", column="d"))
    assert kinds(by_date)["d"] == "datetime"
    by_number = read(tmp_path, text, split=TimeSplit(kind="time", column="t"))
    assert kinds(by_number)["t"] == "ignored"
    assert by_number.frames["train"]["t"].to_list() == [1.0, 2.0]


def test_words_that_are_read_as_missing_are_said_with_the_way_out(tmp_path: Path) -> None:
    lines = ("country,cabin,size,y", "NA,None,1,no", "DE,a,NA,yes", " NA ,,3,no", "FR,b,?,yes")
    raw = read(tmp_path, rows(*lines, repeat=20))
    note = dict(raw.remarks)["note"]
    assert note in raw.notes
    assert "'NA' in 40 rows of 'country', 'None' in 20 rows of 'cabin'" in note
    assert "size" not in note
    written = note.partition("data.missing_values: ")[2]
    section = TableData(path="a.csv", target="y", missing_values=tuple(json.loads(written)))
    raw = read_table(section, tmp_path)
    assert raw.frames["train"]["country"].to_list()[:4] == ["NA", "DE", "NA", "FR"]
    assert "note" not in dict(raw.remarks)
    raw = read(tmp_path, rows("a,b,y", "?,,no", "x,1,yes", repeat=20))
    assert "note" not in dict(raw.remarks)
