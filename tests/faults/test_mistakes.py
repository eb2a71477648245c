"""Each mistake a person can make, through the command: what is said, how it exits, what it leaves.

A mistake names file, line, path, what was found, what was expected and the fix; it exits 2 without
a traceback, and the folder is as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from command import PROCESS, command, project_in, tree
from faults.mistakes import CASES, NETWORK, Case, contract, empty, fifth, mistaken, process, rows


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


@pytest.mark.row("F-34")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("verb", ["train", "check"])
def test_a_mistake(project: Path, case: Case, verb: str) -> None:
    case.spoil(project)
    ran = mistaken(verb, "small.yaml")
    at = 0
    for said in case.says:
        assert said in ran.err[at:], f"{said!r} is not said, or not in its place:\n{ran.err}"
        at = ran.err.index(said, at) + len(said)


def test_mistakes_are_told_all_at_once(project: Path) -> None:
    contract(NETWORK + "training: {batch_size: 0, optimizer: {learning_rate: -1}, epochs: 3}\n")(
        project
    )
    ran = mistaken("train", "small.yaml")
    for path in ("training.batch_size", "training.optimizer.learning_rate", "training.epochs"):
        assert f": {path}: " in ran.err


def test_an_override_is_to_blame(project: Path) -> None:
    ran = mistaken("train", "small.yaml", "--set", "model.max_trees=0")
    assert "--set model.max_trees=0: model.max_trees: " in ran.err


def test_a_column_without_values_is_left_out_with_its_reason(project: Path) -> None:
    rows(lambda lines: [f"{lines[0]},void", *(f"{line}," for line in lines[1:])])(project)
    ran = command("train", "small.yaml", "--dry-run")
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if line.startswith("excluded")]
    assert "void (" in line
    assert "missing in every training row" in line


def test_nan_counts_as_missing(project: Path) -> None:
    rows(fifth("44,Bern,nan,no"))(project)
    ran = command("train", "small.yaml", "--dry-run", "--json")
    assert ran.code == 0
    assert "3 feature columns" in ran.err or "2 numeric, 1 categorical" in ran.err


def test_a_real_process_has_no_traceback_either(project: Path) -> None:
    empty(project)
    before = tree(project)
    done = process(*PROCESS, "train", "small.yaml")
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.startswith("rows.csv: data.path: the file is empty")
    assert "Traceback" not in done.stderr
    assert tree(project) == before


@pytest.mark.parametrize("verb", ["train", "evaluate", "predict", "frobnicate"])
def test_missing_arguments_exit_2(project: Path, verb: str) -> None:
    ran = mistaken(verb)
    assert "Usage: trainwright" in ran.err


def test_no_contract(project: Path) -> None:
    ran = mistaken("train", "smal.yaml")
    assert ran.err.startswith("smal.yaml: there is no such contract")
