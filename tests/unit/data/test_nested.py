"""Lists and objects inside a row: refused, as their JSON, or as the turns of a chat."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from command import command, inside
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.sources import Reading
from trainwright.contract.sections.data.table_data import TableData
from trainwright.contract.sections.data.tokens import TokenData
from trainwright.core.errors import DataMistake
from trainwright.data.dispatch import read_data
from trainwright.data.formats.json_lines import nested_text
from trainwright.data.read_table import read_table
from trainwright.data.sources.find_source import read_source
from trainwright.data.text.documents import END, find_documents

TURNS = [{"from": "human", "value": "Hallo,\nZürich?"}, {"from": "gpt", "value": "Ja."}]
ROWS: list[dict[str, Any]] = [
    {"turns": TURNS, "about": {"n": 1, "x": [1.5, None]}, "y": "a"},
    {"turns": [], "about": None, "y": "b"},
    {"turns": TURNS[::-1], "about": {"n": 10**12, "x": []}, "y": "a"},
]
CHATS = ["human: Hallo,\nZürich?\ngpt: Ja.\n", "[]", "gpt: Ja.\nhuman: Hallo,\nZürich?\n"]
ABOUTS = ['{"n": 1, "x": [1.5, null]}', None, '{"n": 1000000000000, "x": []}']


def write(folder: Path, suffix: str, rows: list[dict[str, Any]] = ROWS) -> str:
    name = f"rows{suffix}"
    if suffix == ".jsonl":
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / name).write_text("\n".join(lines))
    elif suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(folder / name)
    else:
        pl.DataFrame(rows).write_ipc(folder / name)
    return name


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".arrow"])
def test_every_format_gives_the_same_text(suffix: str, tmp_path: Path) -> None:
    name = write(tmp_path, suffix)
    text = read_source(name, tmp_path, reading=Reading(nested="text")).frame
    assert [json.loads(one) for one in text["turns"]] == [row["turns"] for row in ROWS]
    assert text["about"].to_list() == ABOUTS
    chat = read_source(name, tmp_path, reading=Reading(nested="chat")).frame
    assert chat["turns"].to_list() == CHATS
    assert chat["about"].to_list() == ABOUTS
    assert chat["y"].to_list() == ["a", "b", "a"]


def test_a_line_of_json_holds_none_unless_that_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(DataMistake) as caught:
        read_source(write(tmp_path, ".jsonl"), tmp_path)
    problem = caught.value.problems[0]
    assert problem.message == "values are nested in turns, about"
    assert problem.kind == "nested_values"
    assert "data.reading.nested" in problem.fix


@pytest.mark.parametrize(
    ("turns", "text"),
    [
        ([{"role": "user", "content": "a"}], "user: a\n"),
        ([{"content": None, "role": "user"}], "user: \n"),
        ([{"role": "user", "content": [{"type": "text"}]}], 'user: [{"type": "text"}]\n'),
        (
            [{"role": "assistant", "content": "b", "tool_calls": [{"id": 1}], "name": None}],
            'assistant: b {"tool_calls": [{"id": 1}]}\n',
        ),
        ([], "[]"),
        ([1, "a"], '[1, "a"]'),
        ({"role": "user", "content": "a"}, '{"role": "user", "content": "a"}'),
        ([{"name": "user"}], '[{"name": "user"}]'),
    ],
)
def test_a_turn_is_a_line_and_nothing_of_it_is_lost(turns: object, text: str) -> None:
    assert nested_text(turns, "chat") == text
    assert nested_text(turns, "text") == json.dumps(turns)


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_turn_without_a_role_is_named(suffix: str, tmp_path: Path) -> None:
    row = {"turns": [*TURNS, {"from": None, "value": "who?"}]}
    name = write(tmp_path, suffix, [{"turns": TURNS}, row])
    with pytest.raises(DataMistake) as caught:
        read_source(name, tmp_path, reading=Reading(nested="chat"))
    (problem,) = caught.value.problems
    assert "turn 3 is no turn" in problem.message + problem.found
    assert problem.place.file == name
    if suffix == ".jsonl":
        assert problem.place.line == 2


def test_a_nested_number_is_no_text_and_keys_are_stripped(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{" a ": [1, 2.50], "b": 1.50}')
    frame = read_source("rows.jsonl", tmp_path, reading=Reading(nested="text")).frame
    assert frame.rows() == [("[1, 2.5]", "1.50")]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_chats_are_documents(suffix: str, tmp_path: Path) -> None:
    section = TokenData(
        kind="tokens",
        path=write(tmp_path, suffix),
        text="turns",
        reading=Reading(nested="chat"),
    )
    assert "".join(find_documents(section, tmp_path).blocks()) == "".join(
        chat + END for chat in CHATS
    )


def test_nested_columns_of_parquet_are_no_features_unless_they_are_text(tmp_path: Path) -> None:
    rows = [{**row, "n": at * at % 7} for at, row in enumerate(ROWS * 8)]
    section = TableData(path=write(tmp_path, ".parquet", rows), target="y")
    kinds = {column.name: column.kind for column in read_table(section, tmp_path).columns}
    assert kinds["turns"] == kinds["about"] == "ignored"
    reading = section.model_copy(update={"reading": Reading(nested="chat")})
    kinds = {column.name: column.kind for column in read_table(reading, tmp_path).columns}
    assert kinds["turns"] != "ignored"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("words", [("--text", "turns"), ("--target", "y")])
def test_init_writes_a_contract_that_loads(
    words: tuple[str, str], suffix: str, tmp_path: Path
) -> None:
    rows = [{**row, "n": at * at % 7} for at, row in enumerate(ROWS * 40)]
    with inside(tmp_path):
        ran = command("init", write(tmp_path, suffix, rows), *words)
        assert ran.code == 0, ran.err
    read = read_contract(tmp_path / "contract.yaml")
    raw = read_data(read.contract.data, read.source.folder)
    assert raw.facts.rows == 120 or words[0] == "--text"


def test_lists_of_one_length_are_lists(tmp_path: Path) -> None:
    pairs = pl.Series("pairs", [[1, 2], None, [3, 4]], dtype=pl.Array(pl.Int64, 2))
    pl.DataFrame({"pairs": pairs}).write_parquet(tmp_path / "rows.parquet")
    read = read_source("rows.parquet", tmp_path, reading=Reading(nested="text")).frame
    assert read["pairs"].to_list() == ["[1, 2]", None, "[3, 4]"]


def test_a_line_that_is_nested_deeply_is_named_at_any_depth(tmp_path: Path) -> None:
    for depth in range(900, 1001, 10):
        (tmp_path / "deep.jsonl").write_text('{"a": 1}\n{"a":' + "[" * depth + "]" * depth + "}\n")
        reading = Reading(nested="text", bad_records=1, cache="off")
        assert read_source("deep.jsonl", tmp_path, reading=reading).frame.height in (1, 2)
