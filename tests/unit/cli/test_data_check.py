"""`data check`: its table, its JSON, its exit codes."""

from __future__ import annotations

import html
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


def test_the_checks_of_a_run_are_kept_and_shown(project: Path) -> None:
    ran = command("train", "small.yaml", "--run", "one")
    assert ran.code in (0, 3), ran.err
    path = Path("runs/one/preflight.json")
    found = json.loads(path.read_text())
    assert {"missing", "disk"} <= {finding["kind"] for finding in found}
    page = Path("runs/one/report.html").read_text()
    assert "is missing in 1 of 300 rows" in html.unescape(page)


def test_an_action_is_counted_wherever_a_run_is_told(project: Path) -> None:
    rows = Path("rows.csv")
    lines = rows.read_text().splitlines()
    rows.write_text("\n".join([*lines, *lines[1:60]]) + "\n")
    actions = ["--set", "data.quality.actions={exact_duplicates: drop, missing: drop}"]
    ran = command("train", "small.yaml", "--run", "one", *actions)
    assert ran.code in (0, 3), ran.err
    assert re.search(r"done +\d+ training rows left out \(exact_duplicates\)", ran.err)
    done = json.loads(Path("runs/one/data/manifest.json").read_text())["done"]
    (copies,) = [one for one in done if one["kind"] == "exact_duplicates"]
    assert copies["count"] == len(copies["rows"]) > 0
    split = json.loads(Path("runs/one/data/split.json").read_text())
    assert split["duplicate_rows"] == 0
    assert "training rows left out (exact_duplicates)" in Path("runs/one/report.html").read_text()


def test_a_fault_that_is_to_fail_writes_nothing(project: Path) -> None:
    before = tree(project)
    ran = command("train", "small.yaml", "--set", "data.quality.actions.missing=fail")
    assert ran.code == 2
    assert "data.quality.actions.missing" in ran.err
    assert tree(project) == before


def test_capped_numbers_are_capped_for_new_rows_too(project: Path) -> None:
    rows = Path("rows.csv")
    lines = rows.read_text().splitlines()
    lines[5] = "9999,Oslo,3,yes"
    rows.write_text("\n".join(lines) + "\n")
    model = ["--set", "model={kind: linear}", "--set", "data.quality.actions={outliers: cap}"]
    split = ["--set", "data.split={kind: time, column: number}"]
    numbered = [f"{lines[0]},number", *(f"{line},{i}" for i, line in enumerate(lines[1:]))]
    rows.write_text("\n".join(numbered) + "\n")
    ran = command("train", "small.yaml", "--run", "one", *model, *split)
    assert ran.code in (0, 3), ran.err
    assert "'age' capped at 18 to 79 in every row: 1 train" in ran.err
    ends = [f"{age},Oslo,3.0,{7}" for age in (79, 500, 100_000)]
    Path("new.csv").write_text("\n".join(["age,city,visits,number", *ends]) + "\n")
    assert command("predict", "one", "new.csv", "-o", "out.csv").code == 0
    predicted = Path("out.csv").read_text().splitlines()[1:]
    assert len(set(predicted)) == 1
