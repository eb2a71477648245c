"""A plan whose overrides or contract path were edited does not point its run elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from command import CONTRACT, NETWORK, command, inside, stopped_at, tree, write_project, write_rows
from trainwright.core.files import Json, hash_value, read_json, write_json

pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.row("F-58")]

RUN = Path("runs/one")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stopped run `one`, and beside it other rows, another contract and another runs folder."""
    folder = tmp_path_factory.mktemp("stopped")
    write_project(folder, NETWORK)
    write_rows(folder / "other.csv", 300, seed=5)
    (folder / "other.yaml").write_text(NETWORK + "resume: {data_changed: record}\n")
    elsewhere = folder / "elsewhere" / "two"
    elsewhere.mkdir(parents=True)
    write_project(elsewhere, NETWORK + "resume: {data_changed: record}\n", rows=310)
    with inside(folder):
        words = ("--set", "training.checkpointing.keep_last=3")
        assert stopped_at(9, "train", "small.yaml", "--run", "one", *words).code == 75
    return folder


@pytest.fixture
def project(stopped: Path) -> Iterator[Path]:
    """The run is put back after the test."""
    with inside(stopped):
        kept = Path(shutil.copytree(RUN, "kept"))
        yield stopped
        shutil.rmtree(RUN)
        kept.rename(RUN)


def other_rows(plan: Json) -> None:
    plan["overrides"] = ["data.path=other.csv", "resume.data_changed=record"]


def other_rows_in_the_whole_plan(plan: Json) -> None:
    other_rows(plan)
    plan["contract"]["data"]["path"] = "other.csv"
    plan["contract"]["resume"]["data_changed"] = "record"
    files = read_json(RUN / "data/manifest.json")["facts"]["files"]
    shas = [one["sha256"] for one in files]
    plan["hash"] = hash_value({"contract": plan["contract"], "files": shas})


def copies_elsewhere(plan: Json) -> None:
    plan["overrides"].append("training.checkpointing.remote=file:///nowhere/there")


def no_overrides(plan: Json) -> None:
    plan["overrides"] = []


def another_contract(plan: Json) -> None:
    plan["contract_path"] = str(Path("other.yaml").absolute())


def another_runs_folder(plan: Json) -> None:
    plan["contract_path"] = str(Path("elsewhere/two/small.yaml").absolute())


def a_text(plan: Json) -> None:
    del plan["contract_path"]
    plan["contract_folder"] = str(Path("elsewhere/two").absolute())


def without_digests(plan: Json) -> None:
    another_runs_folder(plan)
    del plan["request"]


EDITS: dict[Callable[[Json], None], tuple[str, str]] = {
    other_rows: ("overrides", "data.path=other.csv"),
    other_rows_in_the_whole_plan: ("overrides", "data.path=other.csv"),
    copies_elsewhere: ("overrides", "file:///nowhere/there"),
    no_overrides: ("overrides", "none"),
    another_contract: ("contract_path", "other.yaml"),
    another_runs_folder: ("contract_path", "elsewhere/two/small.yaml"),
    a_text: ("contract_folder", "elsewhere/two"),
    without_digests: ("contract_path", "elsewhere/two/small.yaml"),
}


def edit(change: Callable[[Json], None]) -> None:
    plan = read_json(RUN / "plan.json")
    change(plan)
    write_json(RUN / "plan.json", plan)


@pytest.mark.parametrize("change", EDITS, ids=lambda change: change.__name__)
def test_an_edited_plan_is_refused(project: Path, change: Callable[[Json], None]) -> None:
    edit(change)
    before = tree(project)
    ran = command("resume", "one")
    assert ran.code == 2
    for said in EDITS[change]:
        assert said in ran.err
    assert "plan.json was edited" in ran.err
    assert tree(project) == before
    verified = command("runs", "verify", "one")
    assert verified.code == 13
    assert EDITS[change][0] in verified.out


def test_a_plan_that_denies_its_digests_loses_its_checkpoints(project: Path) -> None:
    def deny(plan: Json) -> None:
        another_contract(plan)
        del plan["request"], plan["identity"]["request"]

    edit(deny)
    ran = command("resume", "one")
    assert ran.code == 12
    assert "belong to another run" in ran.err


def test_what_a_person_says_holds(project: Path) -> None:
    again = ("train", "small.yaml", "--run", "one", "--resume")
    kept = ("--set", "training.checkpointing.keep_last=5")
    assert stopped_at(3, *again, *kept).code == 75
    assert read_json(RUN / "plan.json")["overrides"] == [kept[1]]
    assert command("runs", "verify", "one").code == 0
    ran = command("resume", "one")
    assert ran.code in (0, 3), ran.err
    assert command("runs", "verify", "one").code == 0


def test_a_run_without_digests_goes_on(tmp_path: Path) -> None:
    write_project(tmp_path, CONTRACT)
    with inside(tmp_path):
        assert command("train", "small.yaml", "--run", "one").code in (0, 3)
        plan = read_json(RUN / "plan.json")
        del plan["request"], plan["identity"]
        write_json(RUN / "plan.json", plan)
        (RUN / "checksums.json").unlink()
        (RUN / "evaluation.json").unlink()
        assert command("resume", "one").code in (0, 3)
