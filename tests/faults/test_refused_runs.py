"""A mistake that shows only once a run has its folder: nothing of it is left, and what was there
before is as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Never

import pytest

from command import NETWORK, Ran, command, project_in, stopped_at, tree
from trainwright.core.errors import DataMistake, Problem, RunLocked
from trainwright.core.files import read_json
from trainwright.run import train as run_train
from trainwright.run.opening.undo_refused import NewFolders, locked_new
from trainwright.tracking.lock import RunLock
from trainwright.tracking.run_folder import RunFolder

RUNS = Path("runs")


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path)


def refuse(*_: object) -> Never:
    raise DataMistake(Problem("refused by this test", fix="none"))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks before a training refuse it."""
    monkeypatch.setattr(run_train, "preflight", refuse)


def refused(*words: str) -> Ran:
    ran = command(*words)
    assert ran.code == 2, ran.err
    return ran


@pytest.mark.usefixtures("refusing")
@pytest.mark.parametrize(
    "words", [(), ("--run", "one"), ("--run", "one", "--resume"), ("--runs", "deep/in/here")]
)
@pytest.mark.parametrize("there", [False, True])
def test_a_new_run_leaves_nothing(project: Path, words: tuple[str, ...], there: bool) -> None:
    if there:
        for runs in ("runs", "deep/in/here"):
            Path(runs).mkdir(parents=True)
    before = tree(project)
    assert "refused by this test" in refused("train", "small.yaml", *words).err
    assert tree(project) == before


@pytest.mark.usefixtures("refusing")
def test_a_folder_that_was_there_stays(project: Path) -> None:
    (RUNS / "one").mkdir(parents=True)
    (RUNS / "other" / "data").mkdir(parents=True)
    before = tree(project)
    refused("train", "small.yaml", "--run", "one")
    assert tree(project) == before
    refused("train", "small.yaml", "--run", "other")
    assert tree(project) == before


CASES = {
    "data missing": ("data.path=none.csv",),
    "no such target": ("data.target=none",),
    "a target of one class": ("data.target=city", "data.filter=x"),
    "out of range": ("model.max_trees=0",),
    "a column of the slices": ("slices.0.column=none",),
    "folds of too few rows": ("data.split={kind: stratified, folds: 200}",),
    "a positive class": ("data.positive=perhaps",),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("words", [(), ("--run", "one"), ("--run", "one", "--resume")])
def test_what_is_wrong_with_contract_or_data(
    project: Path, case: str, words: tuple[str, ...]
) -> None:
    before = tree(project)
    chosen = [word for setting in CASES[case] for word in ("--set", setting)]
    refused("train", "small.yaml", *words, *chosen)
    assert tree(project) == before


@pytest.mark.torch
def test_what_only_the_wiring_shows(project: Path) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    before = tree(project)
    remote = "training.checkpointing.remote=nowhere://bucket/folder"
    ran = refused("train", "small.yaml", "--run", "one", "--set", remote)
    assert "nowhere" in ran.err
    assert tree(project) == before


def test_who_takes_the_folder_of_a_refused_run_keeps_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process takes it as soon as the lock is given back."""
    made = NewFolders.of(tmp_path / "runs" / "one")
    folder = RunFolder.create(tmp_path / "runs", "one")
    taken: list[RunLock] = []

    def release(lock: RunLock) -> None:
        give_back(lock)
        if not taken:
            taken.append(folder.lock())

    give_back = RunLock.release
    monkeypatch.setattr(RunLock, "release", release)
    with pytest.raises(DataMistake), locked_new(folder, made):
        refuse()
    with pytest.raises(RunLocked):
        folder.lock()
    taken[0].release()


def test_what_was_trained_stays(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_train, "judge_scored", refuse)
    refused("train", "small.yaml", "--run", "one")
    assert (RUNS / "one" / "bundle").is_dir()
    assert read_json(RUNS / "one" / "record.json")["ending"]["state"] == "failed"


def test_grown_trees_stay(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(run_train, "_check_data", refuse)
        refused("train", "small.yaml", "--run", "one")
    assert list((RUNS / "one" / "checkpoints").glob("trees-*.json"))
    assert "goes on from tree" in command("resume", "one").err


@pytest.mark.torch
def test_a_run_that_goes_on_is_restored(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    assert stopped_at(9, "train", "small.yaml", "--run", "one").code == 75
    before = {path: one for path, one in tree(project).items() if not path.endswith("lock")}
    with monkeypatch.context() as patch:
        patch.setattr(run_train, "preflight", refuse)
        refused("resume", "one")
        words = ("train", "small.yaml", "--run", "one", "--resume")
        refused(*words, "--set", "training.checkpointing.keep_last=7")
    after = {path: one for path, one in tree(project).items() if not path.endswith("lock")}
    assert after == before
    assert command("resume", "one").code in (0, 3)


@pytest.mark.torch
def test_other_bits_are_refused_and_nothing_has_changed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    Path("small.yaml").write_text(NETWORK)
    assert stopped_at(9, "train", "small.yaml", "--run", "one").code == 75
    before = {path: one for path, one in tree(RUNS).items() if not path.endswith("lock")}
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "0.0.1")
        assert "cannot resume bit-exactly" in refused("resume", "one").err
    after = {path: one for path, one in tree(RUNS).items() if not path.endswith("lock")}
    assert after == before
