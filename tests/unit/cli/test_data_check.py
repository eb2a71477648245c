"""`data check`: its table, its JSON, its exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from command import command, inside, tree, write_project
from trainwright.contract.quality import FindingKind

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "data-quality.md"
FIELDS = {"kind", "severity", "count", "rows", "columns", "message", "fix"}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write_project(tmp_path)
    with inside(tmp_path):
        yield tmp_path


def test_the_json_has_every_field_and_the_positions(project: Path) -> None:
    rows = Path("rows.csv")
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines, lines[1], lines[5]]) + "\n")
    ran = command("data", "check", rows, "--target", "bought", "--quick", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)["findings"]
    assert all(set(finding) == FIELDS for finding in found)
    (copies,) = [finding for finding in found if finding["kind"] == "exact_duplicates"]
    assert (copies["rows"], copies["count"], copies["severity"]) == ([300, 301], 2, "warning")
    (absent,) = [finding for finding in found if finding["kind"] == "missing"]
    assert (absent["rows"], absent["columns"]) == ([7], ["visits"])


def test_the_table_names_kinds_and_fixes_and_nothing_is_written(project: Path) -> None:
    before = tree(project)
    ran = command("data", "check", "rows.csv", "--target", "bought")
    assert ran.code == 0
    assert re.search(r"info +missing +1 +7 +'visits' is missing in 1 of 300 rows", ran.out)
    assert "fix: " in ran.out
    assert "label errors" in ran.err
    assert tree(project) == before


def test_an_error_has_an_exit_code_of_its_own(project: Path) -> None:
    contract = Path("small.yaml")
    columns = "data:\n  columns: {age: {range: [18, 60]}}"
    contract.write_text(contract.read_text().replace("data:", columns))
    ran = command("data", "check", contract, "--quick", "--json")
    assert ran.code == 4
    worst = json.loads(ran.out)["findings"][0]
    assert (worst["kind"], worst["severity"], worst["columns"]) == (
        "out_of_range",
        "error",
        ["age"],
    )
    checked = command("check", contract, "--json")
    assert "out_of_range" in {one["kind"] for one in json.loads(checked.out)["findings"]}


def test_a_contract_has_its_rows_divided(project: Path) -> None:
    rows = Path("rows.csv")
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines, *lines[1:]]) + "\n")
    found = json.loads(command("data", "check", "small.yaml", "--quick", "--json").out)["findings"]
    messages = [one["message"] for one in found if one["kind"] == "exact_duplicates"]
    assert any("validation and test rows equal a training row" in message for message in messages)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["absent.csv"], "there is no such file"),
        (["rows.csv", "--target", "bougt"], "did you mean 'bought'?"),
        (["small.yaml", "--target", "nothing"], "there is no column 'nothing'"),
    ],
)
def test_mistakes_exit_2(project: Path, words: list[str], said: str) -> None:
    ran = command("data", "check", *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err


def test_data_that_cannot_be_divided_is_looked_at_all_the_same(project: Path) -> None:
    rows = Path("rows.csv")
    text = rows.read_text()
    rows.write_text(text + "old,Oslo,3,yes\n")
    ran = command("data", "check", "small.yaml", "--quick", "--json")
    (wrong,) = [one for one in json.loads(ran.out)["findings"] if one["kind"] == "wrong_type"]
    assert (wrong["rows"], wrong["columns"]) == ([300], ["age"])


def test_every_kind_stands_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    kinds = text[text.index("## Kinds") : text.index("## What a column")]
    assert set(re.findall(r"`(\w+)`", "".join(re.findall(r"(?m)^\| (`.*?) \|", kinds)))) == set(
        get_args(FindingKind)
    )


def test_the_checks_of_a_run_are_kept_and_not_done_again(project: Path) -> None:
    ran = command("train", "small.yaml", "--run", "one")
    assert ran.code in (0, 3), ran.err
    found = json.loads(Path("runs/one/preflight.json").read_text())
    assert {"missing", "disk"} <= {finding["kind"] for finding in found}
