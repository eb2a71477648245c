"""Lines that are JSON and still no rows."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from trainwright.contract.sections.data.sources import Reading
from trainwright.core.errors import DataMistake
from trainwright.data.formats import json_lines
from trainwright.data.sources.find_source import read_source


def problem_of(folder: Path, line: str) -> str:
    (folder / "rows.jsonl").write_text('{"a": 1, "y": "no"}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(DataMistake) as caught:
        read_source("rows.jsonl", folder)
    (problem,) = caught.value.problems
    assert (problem.place.file, problem.place.line) == ("rows.jsonl", 2)
    return problem.message


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"a": 1, "a ": 2}', "keys occur more than once: 'a'"),
        ('{"a": {"b": 1, " b": 2}}', "keys occur more than once: 'b'"),
        ("{}", "the object is empty"),
        (r'{"a": "\ud800"}', r"half of a letter: \ud800 to \udfff stand in pairs"),
        (r'{"a": "\uDC00\ud800"}', r"half of a letter: \ud800 to \udfff stand in pairs"),
        (r'{"\udbff": 1}', r"half of a letter: \ud800 to \udfff stand in pairs"),
    ],
)
def test_a_line_that_is_no_row(line: str, message: str, tmp_path: Path) -> None:
    assert problem_of(tmp_path, line) == message


def test_pairs_are_letters(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(r'{"a": "\ud83d\ude00", "b": "\\ud800"}')
    (row,) = read_source("rows.jsonl", tmp_path).frame.to_dicts()
    assert row == {"a": "😀", "b": r"\ud800"}


def test_empty_objects_that_may_be_left_out_move_no_line(tmp_path: Path) -> None:
    lines = ["{}", "{}", '{"a": 1}', "{}", '{"a": 2}', '{"a": 3}']
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    with mock.patch.object(json_lines, "_BLOCK_RECORDS", 2):
        source = read_source("rows.jsonl", tmp_path, reading=Reading(bad_records=3))
    assert source.frame["a"].to_list() == ["1", "2", "3"]
    assert source.lines.tolist() == [3, 5, 6]
    assert source.version.skipped == (1, 2, 4)


def test_the_first_bad_lines_are_named(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("\n".join(["{"] * 20))
    with pytest.raises(DataMistake) as caught:
        read_source("rows.jsonl", tmp_path, reading=Reading(bad_records=8))
    assert [problem.place.line for problem in caught.value.problems] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_list_of_objects_is_told_at_once(indent: int | None, tmp_path: Path) -> None:
    rows = [{"a": i, "y": "no"} for i in range(9)]
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows, indent=indent))
    with pytest.raises(DataMistake) as caught:
        read_source("rows.jsonl", tmp_path)
    (problem,) = caught.value.problems
    assert problem.place.line == 1
    assert "jq -c '.[]' rows.jsonl" in problem.fix
