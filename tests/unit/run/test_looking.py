"""Data is looked at before budget is spent: once for each version, by the same code."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from command import command, inside, unended, write_project
from trainwright.core.files import Json, read_json
from trainwright.data.audit import run_audit
from trainwright.data.audit.audit_result import AuditResult, Sides
from trainwright.data.modalities import table_modality
from trainwright.data.quality import run_checks
from trainwright.data.quality.examined_data import ExaminedData
from trainwright.data.quality.finding import Finding
from trainwright.run import audit_data


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A name for each time that data is looked at, in a project with a cache of its own."""
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))
    found: list[str] = []
    look = table_modality.table_faults

    def counted(*given: object, **named: object) -> object:
        found.append("looked")
        return look(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(table_modality, "table_faults", counted)
    write_project(tmp_path)
    with inside(tmp_path):
        yield found


def told(name: str, *words: str) -> tuple[Json, Json]:
    """What a run keeps of the faults and of the audit."""
    assert command("train", "small.yaml", "--run", name, *words).code in (0, 3)
    run = Path("runs", name)
    faults = [one for one in read_json(run / "preflight.json") if one["kind"] != "disk"]
    return faults, read_json(run / "data" / "leakage.json")


def test_the_same_data_is_looked_at_once_and_the_same_is_told(looks: list[str]) -> None:
    first = told("a")
    assert first[0]
    assert first[1]
    assert told("b", "--set", "model.max_trees=3", "--set", "data.num_workers=0") == first
    assert looks == ["looked"]


@pytest.mark.extended
@pytest.mark.parametrize(
    "word", ["data.quality.look=quick", "data.reading.cache=off", "split_seed=7"]
)
def test_another_way_to_look_is_another_look(word: str, looks: list[str]) -> None:
    told("a")
    told("b", "--set", word)
    assert len(looks) == 2


@pytest.mark.extended
def test_other_rows_are_looked_at_anew(looks: list[str]) -> None:
    before, _ = told("a")
    rows = pl.read_csv("rows.csv")
    pl.concat([rows, rows[:20]]).write_csv("rows.csv")
    after, _ = told("b")
    assert len(looks) == 2
    kinds = [{one["kind"] for one in found} for found in (before, after)]
    assert "exact_duplicates" in kinds[1] - kinds[0]


@pytest.mark.extended
def test_what_other_code_found_is_not_believed(
    looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    told("a")
    monkeypatch.setattr(audit_data, "_code", lambda: "other")
    told("b")
    assert len(looks) == 2


PLUMBING = {"opening/open_folder", "prepare/prepare_run", "prepare/ready_run", "screen", "summary"}
"""Modules of `run` that take what was found further, and decide nothing of it."""


@pytest.mark.extended
def test_all_code_that_decides_findings_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    files = set(audit_data._code_files())
    assert Path(audit_data.__file__) in files
    package = Path(audit_data.__file__).parents[1]
    missing = {
        f"{file.relative_to(package)} -> {name}"
        for file in files
        for name in imported(file)
        if not {package / f"{name}.py", package / name / "__init__.py"} & files
        and name not in {f"run/{one}" for one in PLUMBING}
    }
    assert not missing
    code = audit_data._code.__wrapped__
    before, hashed = code(), audit_data.hash_file
    for changed in (
        Path(audit_data.__file__),
        package / "contract" / "sections" / "data" / "quality.py",
    ):
        monkeypatch.setattr(
            audit_data, "hash_file", lambda one, it=changed: "" if one == it else hashed(one)
        )
        assert code() != before


def imported(file: Path) -> set[str]:
    """The modules of the package that a file imports, as paths."""
    nodes = ast.walk(ast.parse(file.read_text()))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    inner = (name.removeprefix("trainwright.") for name in names if name[:12] == "trainwright.")
    return {name.replace(".", "/") for name in inner} - {"doctor"}


def test_what_other_packages_found_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = audit_data._code.__wrapped__
    before = code()
    assert code() == before
    monkeypatch.setattr(audit_data, "version", lambda name: f"{name} of another day")
    assert code() != before


def test_a_leak_is_told_once(looks: list[str]) -> None:
    rows = pl.read_csv("rows.csv")
    rows.with_columns(paid=(pl.col("bought") == "yes").cast(pl.Int64)).write_csv("rows.csv")
    found, audited = told("a")
    assert [one["columns"] for one in found if one["kind"] == "leak"] == [["paid"]]
    assert [one["columns"] for one in audited if one["verdict"] == "leak"] == [["paid"]]


def test_a_run_that_goes_on_with_other_data_is_looked_at_again(looks: list[str]) -> None:
    before, _ = told("a")
    unended(Path("runs/a"))
    rows = pl.read_csv("rows.csv")
    pl.concat([rows, rows[:20]]).write_csv("rows.csv")
    after, _ = told("a", "--resume", "--set", "resume.data_changed=record")
    assert len(looks) == 2
    assert "exact_duplicates" in {one["kind"] for one in after} - {one["kind"] for one in before}


def test_a_run_that_goes_on_with_its_data_is_told_the_same(looks: list[str]) -> None:
    before = told("a")
    unended(Path("runs/a"))
    assert told("a", "--resume") == before
    assert looks == ["looked"]


@pytest.mark.extended
def test_of_many_rows_check_leaves_what_models_find_to_the_training(
    looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_modality, "MOST_CHECKED", 100)
    fitted: list[str] = []

    def doubted(_: ExaminedData) -> list[Finding]:
        fitted.append("labels")
        return [Finding("label_error", "warning", "a label is doubtful", 1)]

    monkeypatch.setattr(run_checks, "label_errors", doubted)
    slow = (*run_checks.SLOW[:-1], ("label errors", doubted))
    monkeypatch.setattr(run_checks, "SLOW", slow)
    different = run_audit.different_rows

    def told_apart(sides: Sides) -> list[AuditResult]:
        fitted.append("different rows")
        return different(sides)

    of_the_split = tuple(told_apart if one is different else one for one in run_audit._OF_THE_SPLIT)
    monkeypatch.setattr(run_audit, "different_rows", told_apart)
    monkeypatch.setattr(run_audit, "_OF_THE_SPLIT", of_the_split)
    checked = command("check", "small.yaml", "--json")
    found = json.loads(checked.out)
    assert not fitted
    left = ["label errors"]  # The parts are drawn at random: no model can tell them apart.
    assert found["sample"]["left_to_train"] == left
    assert found["sample"]["labels"] == 0
    assert "different rows" not in {one["test"] for one in found["audit"]}
    (said,) = (one["message"] for one in found["findings"] if one["kind"] == "sampled")
    assert said.endswith(f"; left to train, which fits models for it: {', '.join(left)}")

    grouped = ("--set", "data.split.kind=group", "--set", "data.split.column=age")
    of_groups = json.loads(command("check", "small.yaml", "--json", *grouped).out)
    assert of_groups["sample"]["left_to_train"] == [*left, "different rows"]

    after = told("a")
    assert sorted(fitted) == ["different rows", "labels"]
    assert "label_error" in {one["kind"] for one in after[0]}
    assert "left to train" not in str(after)
    # What was checked before is not checked again: only what was left.
    assert len(looks) == 3
    told("b")
    assert len(looks) == 3
    # Found at once or in two parts: the same, in the same order.
    monkeypatch.setattr(audit_data, "_left_to_models", lambda _: ())
    assert told("c") == after
    assert len(looks) == 4
