"""Copies made while the training goes on: in which order, and what becomes of those that fail."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from deadlines import within
from trainwright.checkpoint.copies.checkpoint_copies import MirroredCheckpoints, Places
from trainwright.checkpoint.copies.copied_file_sets import FileSets
from trainwright.checkpoint.copies.run_copies import Moment, RunCopies
from trainwright.checkpoint.files.file_entry import name_of, step_of
from trainwright.checkpoint.storages.object_files import ObjectFiles, open_system
from trainwright.checkpoint.storages.object_storage import open_objects
from trainwright.checkpoint.storages.storage import CheckpointStorage
from trainwright.checkpoint.store import Checkpoints, SaveOutcome
from trainwright.core.errors import StorageFailed
from trainwright.testing.storage_conformance import _parts
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch


class Mirrored:
    """A store whose copies wait for a gate."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.gate = threading.Event()
        self.copied: list[int] = []
        self.said: list[str] = []
        self.url = f"file://{root}/away/one"
        folder = RunFolder.create(root / "runs", "one")
        local = Checkpoints(folder.checkpoints, 4)
        away = open_objects(self.url)
        sets = FileSets(ObjectFiles(*open_system(self.url)))
        places = Places(
            local=local,
            here=local.storage,
            remote=local.elsewhere(away),
            away=away,
            pins=set,
            files=RunCopies(folder, sets, ""),
        )
        self.store = MirroredCheckpoints(local, places, self.said.append, goes_on=False)
        copy, copy_from = RunCopies.copy, Checkpoints.copy_from

        def waiting(files: RunCopies, moment: Moment) -> bool:
            assert self.gate.wait(within(20))
            return copy(files, moment)

        def told(to: Checkpoints, storage: CheckpointStorage, name: str) -> SaveOutcome:
            self.copied.append(step_of(name))
            return copy_from(to, storage, name)

        monkeypatch.setattr(RunCopies, "copy", waiting)
        monkeypatch.setattr(Checkpoints, "copy_from", told)

    def save(self, step: int, score: float) -> None:
        with self.store.taking():
            parts = _parts(step)
        self.store.save(step, parts, {}, score)


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirrored:
    return Mirrored(tmp_path, monkeypatch)


def test_the_best_is_there_before_the_newest(mirrored: Mirrored) -> None:
    with mirrored.store:
        mirrored.store.newest_valid()
        for step, score in ((10, 0.5), (20, 0.1), (30, 0.3), (40, 0.4)):
            mirrored.save(step, score)
        mirrored.gate.set()
    assert mirrored.copied == [20, 40, 30, 10]
    names = Checkpoints(open_objects(mirrored.url), 4).names()
    assert names == [name_of(step) for step in (40, 30, 20, 10)]


def test_where_the_newest_is_the_best_it_comes_first(mirrored: Mirrored) -> None:
    with mirrored.store:
        mirrored.store.newest_valid()
        for step, score in ((10, 0.5), (20, 0.4), (30, 0.3)):
            mirrored.save(step, score)
        mirrored.gate.set()
    assert mirrored.copied == [30, 20, 10]


def test_without_the_files_a_checkpoint_is_not_copied(
    mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(files: RunCopies, moment: Moment) -> bool:
        raise StorageFailed("the line is cut")

    monkeypatch.setattr(RunCopies, "copy", refused)
    with mirrored.store:
        mirrored.store.newest_valid()
        mirrored.save(10, 0.5)
    assert mirrored.copied == []
    assert len(mirrored.said) == 2
    assert f"{name_of(10)} is not copied to {mirrored.url}: the line is cut" in mirrored.said[1]
