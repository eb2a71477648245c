"""Runs that an earlier version began: their plans lack keys of the contract that came later."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from command import NETWORK, command, inside, stopped_at, train_one, write_project
from faults.tiers import each
from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.files import Json, hash_file, hash_value, read_json, write_json
from trainwright.tracking.checksums import write_checksums
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder

pytest.importorskip("torch")

pytestmark = pytest.mark.torch

STEP = 11
RUN = Path("runs/one")
ALONE = (
    "data.num_workers",
    "data.split",
    "data.sampling",
    "model.dropout",
    "compute",
    "training.compute",
    "training.compute.compile",
    "training.early_stopping.mode",
    "training.stop",
    "training.stop.schedule_spans",
    "resume.determinism",
    "split_seed",
)


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("projects")
    write_project(root, NETWORK)
    with inside(root):
        assert train_one().code in (0, 3)
        RUN.rename("runs/whole")
        assert stopped_at(STEP, "train", "small.yaml", "--run", "one").code == 75
        yield root


@pytest.fixture
def project(projects: Path) -> Iterator[Path]:
    """The stopped run, put back after the test."""
    kept = Path(shutil.copytree(RUN, "kept"))
    yield projects
    shutil.rmtree(RUN)
    kept.rename(RUN)


def forget(run: Path, contract: Json, paths: tuple[str, ...] = ()) -> None:
    """Take keys out of a stored plan, as the version wrote it that did not know them."""
    plan = read_json(run / "plan.json")
    for path in paths:
        *around, key = path.split(".")
        inner = contract
        for name in around:
            inner = inner[name]
        del inner[key]
        plan["choices"] = [one for one in plan["choices"] if not one["path"].startswith(path)]
    files = [one["sha256"] for one in read_json(run / "data/manifest.json")["facts"]["files"]]
    plan["contract"] = contract
    plan["hash"] = hash_value({"contract": contract, "files": files})
    write_json(run / "plan.json", plan)


@pytest.mark.parametrize("path", each(3, ALONE))
def test_a_run_without_a_key_goes_on(project: Path, path: str) -> None:
    forget(RUN, read_json(RUN / "plan.json")["contract"], (path,))
    assert command("runs", "verify", "one").code == 0
    goes_on()


def test_a_run_with_nothing_but_what_was_written_goes_on(project: Path) -> None:
    written = read_contract(Path("small.yaml")).contract
    forget(RUN, written.model_dump(mode="json", exclude_unset=True))
    plan = read_json(RUN / "plan.json")
    write_json(RUN / "plan.json", {**plan, "choices": []})
    goes_on()


def goes_on() -> None:
    ran = command("resume", "one")
    assert ran.code in (0, 3), ran.err
    weights = [
        hash_file(Path("runs") / name / "bundle/network.safetensors") for name in ("one", "whole")
    ]
    assert weights[0] == weights[1]
    assert command("runs", "verify", "one").code == 0


def test_a_finished_run_is_read(project: Path) -> None:
    shutil.copytree("runs/whole", "runs/old")
    folder = RunFolder(Path("runs/old"))
    written = read_contract(Path("small.yaml")).contract
    forget(folder.path, written.model_dump(mode="json", exclude_unset=True))
    write_checksums(folder, read_identity(folder))
    for words in (
        ("runs", "show", "old"),
        ("runs", "list"),
        ("runs", "verify", "old"),
        ("report", "old"),
        ("predict", "old", "rows.csv", "-o", "out.csv"),
        ("runs", "compare", "old", "whole"),
        ("data", "diff", "old", "whole"),
    ):
        assert command(*words).code == 0, words
    assert command("evaluate", "old", "rows.csv").code in (0, 3)
    assert "old is finished: nothing to do" in command("resume", "old").err
    shutil.rmtree("runs/old")
