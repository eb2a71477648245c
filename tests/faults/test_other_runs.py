"""Parts of another run in a run's folder, and checkpoints that are gone. Rows F-58 and F-59."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command import command, inside, with_layers, write_project
from stopped_runs import cut_run_of
from trainwright.core.files import read_json, write_json
from trainwright.tracking.run_folder import RunFolder

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

NETWORK = with_layers("[8]") + (
    "training:\n  num_epochs: 3\n  batch_size: 32\n  early_stopping: off\n"
    "  checkpointing: {save_every_n_steps: 5}\n"
)
CUT = 7


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two projects with other rows and another seed, each with a finished and a cut run."""
    root = tmp_path_factory.mktemp("projects")
    for name, seed, rows in (("own", "1", 300), ("other", "2", 310)):
        folder = root / name
        folder.mkdir()
        write_project(folder, NETWORK, rows)
        with inside(folder):
            chosen = ("--set", f"seed={seed}")
            assert command("train", "small.yaml", "--run", "done", *chosen).code in (0, 3)
            cut_run_of(folder / "small.yaml", CUT, f"seed={seed}")
    return root


@pytest.fixture
def own(projects: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(projects, tmp_path / "projects")) / "own"


def take(own: Path, run: str, part: str) -> None:
    """Put a part of the other project's run in the place of the own one."""
    source = own.parent / "other" / "runs" / run / part
    target = own / "runs" / run / part
    if target.is_dir():
        shutil.rmtree(target)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def at(own: Path, *words: str) -> tuple[int, str]:
    with inside(own):
        ran = command(*words)
    return ran.code, ran.out + ran.err


def resume(own: Path) -> tuple[int, str]:
    return at(own, "train", "small.yaml", "--set", "seed=1", "--run", "cut", "--resume")


@pytest.mark.row("F-58")
def test_checkpoints_of_another_run(own: Path) -> None:
    take(own, "cut", "checkpoints")
    before = sorted(path.name for path in (own / "runs" / "cut" / "checkpoints").iterdir())
    code, said = resume(own)
    assert code == 12
    assert "belong to another run" in said
    after = sorted(path.name for path in (own / "runs" / "cut" / "checkpoints").iterdir())
    assert before == after
    assert at(own, "runs", "verify", "runs/cut")[0] == 12


@pytest.mark.row("F-58")
def test_one_checkpoint_of_another_run_is_set_aside(own: Path) -> None:
    names = [one.name for one in (own / "runs" / "cut" / "checkpoints").glob("step-*")]
    take(own, "cut", f"checkpoints/{max(names)}")
    code, said = at(own, "runs", "verify", "runs/cut")
    assert code != 0
    assert max(names) in said
    assert resume(own)[0] in (0, 3)
    events = (own / "runs" / "cut" / "events.jsonl").read_text()
    assert "manifest" in events


@pytest.mark.row("F-58")
@pytest.mark.parametrize(
    "part",
    [
        "bundle",
        "baselines",
        "evaluation.json",
        "plan.json",
        "preflight.json",
        "data/split.json",
        "predictions.parquet",
        "checksums.json",
    ],
)
def test_a_part_of_another_finished_run(own: Path, part: str) -> None:
    theirs = own.parent / "other" / "runs" / "done" / part
    mine = own / "runs" / "done" / part
    if mine.is_file() and mine.read_bytes() == theirs.read_bytes():
        write_json(theirs, {"another": "run"})
    take(own, "done", part)
    code, said = at(own, "runs", "verify", "runs/done")
    assert code in (12, 13)
    assert part.partition("/")[0] in said


@pytest.mark.row("F-58")
@pytest.mark.parametrize("part", ["bundle", "evaluation.json"])
def test_a_verdict_of_another_run_is_not_read(own: Path, part: str) -> None:
    take(own, "done", part)
    again = ("train", "small.yaml", "--set", "seed=1", "--run", "done", "--resume")
    code, said = at(own, *again)
    assert code == 13
    assert part in said


@pytest.mark.row("F-58")
@pytest.mark.parametrize("finished", [True, False])
def test_a_model_of_another_run_predicts_nothing(own: Path, *, finished: bool) -> None:
    take(own, "done", "bundle")
    if not finished:
        (own / "runs" / "done" / "checksums.json").unlink()
    code, said = at(own, "predict", "runs/done", "rows.csv", "--output", "out.csv")
    assert code == 13
    assert "bundle" in said
    assert not (own / "out.csv").exists()


@pytest.mark.row("F-58")
def test_the_own_parts_pass(own: Path) -> None:
    for run in ("done", "cut"):
        code, said = at(own, "runs", "verify", f"runs/{run}")
        assert code == 0, said
        assert "identity" in said


@pytest.mark.row("F-58")
def test_a_run_of_an_earlier_version_goes_on_with_a_remark(own: Path) -> None:
    folder = RunFolder(own / "runs" / "cut")
    plan = read_json(folder.plan)
    del plan["identity"]
    write_json(folder.plan, plan)
    code, said = at(own, "runs", "verify", "runs/cut")
    assert code == 0
    assert "earlier version" in said
    assert resume(own)[0] in (0, 3)
    assert json.loads(folder.plan.read_bytes())["identity"] == {}


@pytest.mark.row("F-59")
@pytest.mark.parametrize("emptied", [True, False])
def test_lost_checkpoints_are_no_silent_start(own: Path, *, emptied: bool) -> None:
    folder = RunFolder(own / "runs" / "cut")
    shutil.rmtree(folder.checkpoints)
    if emptied:
        folder.checkpoints.mkdir()
    signals = folder.signals.read_bytes()
    code, said = at(own, "runs", "verify", "runs/cut")
    assert code == 12
    assert "missing" in said
    code, said = resume(own)
    assert code == 12
    assert "the checkpoints of this run are missing" in said
    assert f"signals.jsonl records {CUT} steps" in said
    assert folder.signals.read_bytes() == signals
