"""A run on its way into use, with the command: registered, judged by the gate, promoted, undone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import CONTRACT, command, project_in, write_rows

PRODUCTION = """\
purpose: production
serving: {latency_ms: 500, megabytes: 50}
training: {calibration: none}
"""
WEAK = ("model.max_trees=1", "model.num_leaves=2")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    contract = CONTRACT.replace("target: 0.6", "target: dummy") + PRODUCTION
    for folder in project_in(tmp_path, contract):
        write_rows(Path("rows.csv"), 1500)
        write_rows(Path("new.csv"), 800, seed=1)
        register("weak", *WEAK)
        yield folder


def register(run: str, *settings: str) -> None:
    words = [word for setting in settings for word in ("--set", setting)]
    assert command("train", "small.yaml", "--run", run, *words).code == 0
    assert command("registry", "add", run, "--name", "shop").code == 0


def promote(reference: str, data: str = "new.csv") -> tuple[int, dict[str, tuple[str, str]]]:
    ran = command("registry", "promote", reference, "--data", data, "--json")
    assert ran.out, ran.err
    clauses = json.loads(ran.out)["clauses"]
    return ran.code, {one["name"]: (one["status"], one["figures"]) for one in clauses}


def in_use() -> str:
    listed = json.loads(command("registry", "list", "--json").out)
    return ", ".join(
        f"{one['model']}:{one['number']}" for one in listed if one["aliases"] == ["champion"]
    )


def test_a_better_model_takes_the_place_of_another_and_gives_it_back(project: Path) -> None:
    assert promote("shop:1")[0] == 0
    register("strong", "model.max_trees=30")
    code, clauses = promote("shop:2")
    assert code == 0, clauses
    assert clauses["roc_auc minus that of shop:1 > 0.0000"][0] == "met"
    assert in_use() == "shop:2"
    assert command("registry", "rollback", "shop", "--why", "a complaint").code == 0
    assert in_use() == "shop:1"
    log = command("registry", "log", "--verify")
    assert log.code == 0
    assert "rolled_back shop:1 (a complaint)" in log.out


def test_a_model_that_is_as_good_is_not_promoted(project: Path) -> None:
    assert promote("shop:1")[0] == 0
    register("again", *WEAK)
    code, clauses = promote("shop:2")
    assert code == 3
    assert clauses["roc_auc minus that of shop:1 > 0.0000"][0] == "missed"
    assert in_use() == "shop:1"


def test_rows_that_the_model_knows_decide_nothing(project: Path) -> None:
    """Those of its test part are new to it."""
    rows = Path("rows.csv").read_text().splitlines()[:401]
    Path("seen.csv").write_text("\n".join(rows) + "\n")
    code, clauses = promote("shop:1", "seen.csv")
    assert code == 3
    status, found = clauses["at least 100 new rows"]
    assert status == "undecided"
    assert 0 < int(found.split()[0]) < 100
    assert in_use() == ""


@pytest.mark.row("F-44")
@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_model_whose_files_are_not_those_registered_is_refused(harm: str, project: Path) -> None:
    assert promote("shop:1")[0] == 0
    register("strong", "model.max_trees=30")
    runs = [path.parent for path in Path("registry/artifacts/shop").glob("*/record.json")]
    model = (
        max(runs, key=lambda run: (run / "bundle/model.txt").stat().st_size) / "bundle/model.txt"
    )
    model.write_text(model.read_text() + "\n") if harm == "changed" else model.unlink()
    code, clauses = promote("shop:2")
    assert code == 3
    assert clauses["files as registered"][0] == "missed"
    assert "model.txt" in clauses["files as registered"][1]
    assert in_use() == "shop:1"


def test_a_run_without_a_verdict_is_not_registered(project: Path) -> None:
    Path("runs/weak/evaluation.json").unlink()
    ran = command("registry", "add", "weak", "--name", "shop")
    assert ran.code == 2
    assert "has no verdict" in ran.err
