"""Checkpoints from their copies: which is gone on from, and what the ledger knows then."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from trainwright.checkpoint.copies.recovery import (
    CopyRequirements,
    NothingCopied,
    Recovered,
    recover_checkpoints,
)
from trainwright.checkpoint.files.file_entry import LEDGER, name_of, step_of
from trainwright.checkpoint.storages.ledger import Ledger
from trainwright.checkpoint.storages.object_storage import ObjectStorage, open_objects
from trainwright.checkpoint.store import Checkpoints, Loaded
from trainwright.core.errors import NoValidCheckpoint
from trainwright.testing.storage_conformance import _parts

pytestmark = pytest.mark.torch

SCORES = {10: 0.5, 20: 0.1, 30: 0.3, 40: 0.4}


class Run:
    """A run with a save at each of `SCORES`, of which some are copied."""

    def __init__(self, folder: Path) -> None:
        self.here, self.new = folder / "here", folder / "new"
        self.away = open_objects(f"file://{folder}/away")
        local = Checkpoints(self.here, 4)
        for step, score in SCORES.items():
            local.save(step, _parts(step), {}, score)
        self.lineage = Ledger(self.here / LEDGER).read().lines[0].lineage

    def copy(self, *steps: int) -> None:
        """In this order."""
        remote = Checkpoints(self.away, 4)
        for step in steps:
            remote.copy_from(Checkpoints(self.here, 4).storage, name_of(step))

    def recover(self, last_step: int = 40, *, keeps_best: bool = True) -> Recovered | NothingCopied:
        """On a new machine, with the ledger that was copied."""
        self.new.mkdir()
        (self.new / LEDGER).write_bytes((self.here / LEDGER).read_bytes())
        wanted = CopyRequirements(self.lineage, last_step, keeps_best, "min")
        return recover_checkpoints(self.new, self.away, wanted)

    def loaded(self) -> Loaded:
        """What a run there begins with."""
        found = Checkpoints(self.new, 4).newest_valid()
        assert isinstance(found, Loaded)
        assert found.rejected == ()
        return found

    def damage(self, step: int) -> None:
        """A file of a copy loses a byte's value."""
        (path,) = self.here.parent.glob(f"away/{name_of(step)}-*/model.safetensors")
        path.write_bytes(path.read_bytes()[:-1] + b"!")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_all_that_was_copied_comes_back(run: Run) -> None:
    run.copy(10, 20, 30, 40)
    assert run.recover() == Recovered(40, ())
    assert run.loaded().step == 40
    assert sorted(map(step_of, Checkpoints(run.new, 4).names())) == [10, 20, 30, 40]
    assert (run.new / LEDGER).read_bytes() == (run.here / LEDGER).read_bytes()


def test_later_saves_are_unknown_as_if_they_had_not_been_made(run: Run) -> None:
    run.copy(10, 20, 30)
    assert run.recover() == Recovered(30, ())
    assert run.loaded().step == 30
    lines = Ledger(run.new / LEDGER).read().lines
    assert [line.name for line in lines] == [name_of(step) for step in (10, 20, 30)]


def test_without_the_best_beside_it_a_checkpoint_is_not_gone_on_from(run: Run) -> None:
    run.copy(10, 30, 40)
    came = run.recover()
    assert isinstance(came, Recovered)
    assert came.step == 10
    assert f"{name_of(20)}, the best until then" in came.rejected[0]
    assert run.loaded().step == 10
    assert [path.name for path in run.new.glob("step-*")] == [name_of(10)]


def test_where_the_last_weights_are_the_model_the_best_may_be_missing(run: Run) -> None:
    run.copy(10, 30, 40)
    assert run.recover(keeps_best=False) == Recovered(40, ())
    assert run.loaded().step == 40


def test_a_step_that_the_copied_signals_do_not_know_is_not_gone_on_from(run: Run) -> None:
    run.copy(10, 20, 30, 40)
    came = run.recover(last_step=25)
    assert isinstance(came, Recovered)
    assert came.step == 20
    assert "the copied signals end at step 25" in came.rejected[0]


def test_a_damaged_copy_is_named_and_its_number_never_used_again(run: Run) -> None:
    run.copy(10, 20, 30, 40)
    run.damage(40)
    came = run.recover()
    assert isinstance(came, Recovered)
    assert came.step == 30
    assert name_of(40) in came.rejected[0]
    assert run.loaded().step == 30
    again = Checkpoints(run.new, 4)
    again.newest_valid()
    again.save(40, _parts(40), {}, 0.4)
    line = Ledger(run.new / LEDGER).read().lines[-1]
    assert (line.name, line.sequence) == (name_of(40), 5)


def test_if_none_verifies_each_is_named(run: Run) -> None:
    run.copy(10, 20)
    for step in (10, 20):
        run.damage(step)
    with pytest.raises(NoValidCheckpoint, match=r"(?s)step-0000000020.*step-0000000010"):
        run.recover()


def test_the_checkpoints_of_another_run_are_refused(run: Run, tmp_path: Path) -> None:
    run.copy(10, 20)
    run.lineage = "f" * 32
    with pytest.raises(NoValidCheckpoint, match="belongs to another run"):
        run.recover()


def test_nothing_copied_is_no_damage(run: Run) -> None:
    assert isinstance(run.recover(), NothingCopied)


def test_looking_changes_nothing(run: Run) -> None:
    run.copy(10, 20)
    (manifest,) = run.here.parent.glob(f"away/{name_of(20)}-*/manifest.json")
    manifest.unlink()
    before = sorted(run.here.parent.glob("away/*/*"))
    assert isinstance(run.away, ObjectStorage)
    assert [one.name for one in run.away.look().candidates] == [name_of(10)]
    assert sorted(run.here.parent.glob("away/*/*")) == before


def test_a_checkpoint_that_the_run_had_set_aside_is_not_gone_on_from(run: Run) -> None:
    run.copy(10, 20, 30, 40)
    damaged = run.here / name_of(40) / "model.safetensors"
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    found = Checkpoints(run.here, 4).newest_valid()
    assert isinstance(found, Loaded)
    assert found.step == 30
    came = run.recover()
    assert isinstance(came, Recovered)
    assert came.step == 30
    assert f"{name_of(40)}: the run had set it aside" in came.rejected[0]
    assert run.loaded().step == 30
