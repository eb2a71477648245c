"""`training.checkpointing.remote`: copies elsewhere, and a run that goes on from them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from command import NETWORK, command, events_of_one, project_in
from trainwright.checkpoint.storages.object_storage import open_objects
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.core.faultpoints import arm

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def address(project: Path) -> str:
    return f"file://{project}/away"


def train(project: Path, *words: str, **settings: str) -> Any:
    chosen = {"remote": address(project), **settings}
    section = ", ".join(f"{key}: {value}" for key, value in chosen.items())
    setting = f"training.checkpointing={{{section}}}"
    return command("train", "small.yaml", "--run", "one", "--set", setting, *words)


def steps(where: Any) -> list[str]:
    return sorted(Checkpoints(where, 3).names())


@pytest.mark.parametrize("asynchronous", ["false", "true"])
def test_copies_are_those_that_the_run_keeps(asynchronous: str, project: Path) -> None:
    ran = train(project, asynchronous=asynchronous)
    assert ran.code in (0, 3), ran.err
    here = steps(Path("runs/one/checkpoints"))
    there = steps(open_objects(f"{address(project)}/one"))
    assert set(there) <= set(here)
    assert here[-1] in there
    found = Checkpoints(open_objects(f"{address(project)}/one"), 3).best_valid()
    mine = Checkpoints(Path("runs/one/checkpoints"), 3).best_valid()
    assert isinstance(found, Loaded)
    assert isinstance(mine, Loaded)
    assert found.step == mine.step


def test_a_run_that_lost_its_checkpoints_goes_on_to_the_same_bits(project: Path) -> None:
    alone = command("train", "small.yaml", "--run", "alone")
    assert alone.code in (0, 3)
    arm("step.done:17:term")
    assert train(project).code == 75
    arm("")
    shutil.rmtree("runs/one/checkpoints")
    ran = train(project, "--resume")
    assert ran.code in (0, 3), ran.err
    assert "at step 17" in ran.err
    weights = [Path(f"runs/{name}/bundle/network.safetensors") for name in ("alone", "one")]
    assert weights[0].read_bytes() == weights[1].read_bytes()


@pytest.mark.extended
def test_a_new_run_does_not_take_up_what_lies_there(project: Path) -> None:
    assert train(project).code in (0, 3)
    shutil.rmtree("runs")
    ran = train(project)
    assert ran.code == 2, ran.err
    assert "checkpoints of another run" in ran.err


def test_a_place_that_takes_nothing_is_told_and_ends_nothing(project: Path) -> None:
    (project / "away").write_text("a file where a folder should be")
    ran = train(project)
    assert ran.code in (0, 3), ran.err
    assert "remote" in {event["kind"] for event in events_of_one("noted")}
    assert "is not copied to" in ran.err


@pytest.mark.parametrize(
    ("remote", "says"),
    [
        ("s3://AKIASECRET:hunter2@bucket/x", "give it in the environment"),
        ("'s3://bucket/x?token=hunter2'", "give it in the environment"),
        ("bucket/x", "no address of a storage"),
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(
    remote: str, says: str, project: Path
) -> None:
    text = (project / "small.yaml").read_text()
    (project / "small.yaml").write_text(f"{text}  checkpointing: {{remote: {remote}}}\n")
    ran = command("train", "small.yaml", "--run", "one")
    assert ran.code == 2
    assert says in ran.err
    assert "hunter2" not in ran.err
    assert not Path("runs").exists()
