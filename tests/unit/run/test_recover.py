"""`resume URL`: what a user hears, and what is there afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("fsspec")

from command import NETWORK, Ran, command, inside, tree, write_project
from trainwright.checkpoint.copies.copied_file_sets import open_sets
from trainwright.checkpoint.copies.run_copies import RunCopies
from trainwright.checkpoint.storages.ledger import Ledger
from trainwright.core.faultpoints import arm
from trainwright.core.files import read_json, write_json
from trainwright.tracking.identity import read_identity
from trainwright.tracking.lock import RunLock
from trainwright.tracking.run_folder import RunFolder

pytestmark = [pytest.mark.torch, pytest.mark.row("F-60")]

WEIGHTS = "bundle/network.safetensors"


@dataclass(frozen=True)
class Machine:
    """A machine with nothing but the copies of run `one`, which was stopped behind step 17. It is
    the working folder."""

    lost: Path
    folder: Path

    @property
    def url(self) -> str:
        return f"file://{self.folder}/away/one"

    @property
    def copies(self) -> Path:
        return self.folder / "away" / "one"

    @property
    def run(self) -> Path:
        return self.folder / "runs" / "one"

    def resume(self, *words: str) -> Ran:
        return command("resume", self.url, *words)


@pytest.fixture(scope="module")
def lost(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the machine that was lost, with an unbroken run beside the stopped one."""
    folder = tmp_path_factory.mktemp("lost")
    write_project(folder, NETWORK)
    with inside(folder):
        assert command("train", "small.yaml", "--run", "alone").code in (0, 3)
        arm("step.done:17:term")
        remote = f"training.checkpointing.remote=file://{folder}/away"
        assert command("train", "small.yaml", "--run", "one", "--set", remote).code == 75
        arm("")
    return folder


@pytest.fixture
def machine(lost: Path, tmp_path: Path) -> Iterator[Machine]:
    shutil.copytree(lost / "away", tmp_path / "away")
    with inside(tmp_path):
        yield Machine(lost, tmp_path)


def test_it_goes_on_to_the_same_bits_and_copies_on(machine: Machine) -> None:
    ran = machine.resume()
    assert ran.code in (0, 3), ran.err
    assert "at step 17" in ran.err
    assert (machine.run / WEIGHTS).read_bytes() == (
        machine.lost / "runs/alone" / WEIGHTS
    ).read_bytes()
    assert command("runs", "verify", "one").code == 0
    pointers = read_json(machine.run / "checkpoints/pointers.json")
    shutil.rmtree(machine.run)
    again = machine.resume()
    assert "is finished: nothing to do" in again.err
    verified = command("runs", "verify", "one")
    assert verified.code == 0
    assert "pointers" not in verified.out
    assert read_json(machine.run / "checkpoints/pointers.json") == pointers


def test_everything_of_a_run_comes_back_but_what_can_be_made_again(machine: Machine) -> None:
    arm("ready:1:raise")
    with pytest.raises(Exception, match="at ready"):
        machine.resume()
    arm("")
    whole, back = tree(machine.lost / "runs/one"), tree(machine.run)
    made_again = {"lock", "requirements.txt"}
    assert whole.keys() - back.keys() <= made_again
    assert not back.keys() - whole.keys()
    changed = {name for name in back if back[name] != whole[name]}
    assert changed <= {"record.json", "events.jsonl", "log.txt", "requirements.txt"}


def test_a_folder_with_nothing_newer_is_replaced(machine: Machine) -> None:
    shutil.copytree(machine.lost / "runs/one", machine.run)
    shutil.rmtree(machine.run / "checkpoints/step-0000000017")
    ledger = Ledger(machine.run / "checkpoints/ledger.jsonl")
    ledger.rewrite(ledger.read().lines[:-1])
    ran = machine.resume()
    assert ran.code in (0, 3), ran.err
    assert "at step 17" in ran.err
    assert [path.name for path in machine.run.parent.iterdir()] == ["one"]


def test_a_newer_folder_is_not_replaced(machine: Machine) -> None:
    shutil.copytree(machine.lost / "runs/one", machine.run)
    for path in machine.copies.glob("step-0000000017-*"):
        shutil.rmtree(path)
    before = tree(machine.folder)
    ran = machine.resume()
    assert ran.code == 2, ran.err
    assert "run one is newer here than its copies" in ran.err
    assert f"trainwright resume {machine.run}" in ran.err.replace("runs/one", str(machine.run))
    assert tree(machine.folder) == before | {"runs/one/lock": tree(machine.run)["lock"]}


def test_the_folder_of_another_run_is_not_replaced(machine: Machine) -> None:
    shutil.copytree(machine.lost / "runs/alone", machine.run)
    before = tree(machine.folder)
    ran = machine.resume()
    assert ran.code == 2
    assert "a run named one is there already, and it is another one" in ran.err
    assert tree(machine.folder) == before
    assert machine.resume("--runs", "others").code in (0, 3)


def test_a_folder_that_cannot_be_told_apart_is_not_replaced(machine: Machine) -> None:
    shutil.copytree(machine.lost / "runs/one", machine.run)
    (machine.run / "plan.json").write_text("{")
    ran = machine.resume()
    assert ran.code == 13
    assert "it cannot be told which run it is of" in ran.err
    assert (machine.run / "plan.json").read_text() == "{"


def test_a_run_that_is_at_work_here_is_not_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[RunLock] = []

    def meanwhile(folder: RunFolder, url: str) -> None:
        shutil.copytree(folder.path, machine.run)
        held.append(RunFolder.open(machine.run).lock())

    monkeypatch.setattr("trainwright.run.recover.recover_run.check_whole", meanwhile)
    for _ in range(2):
        ran = machine.resume()
        assert ran.code == 15, ran.err
    held[0].release()
    assert [path.name for path in machine.run.parent.iterdir()] == ["one"]


def test_damaged_files_are_named(machine: Machine) -> None:
    piece = next(
        path for path in (machine.copies / "files").iterdir() if path.read_bytes()[:5] == b"name:"
    )
    piece.write_bytes(piece.read_bytes() + b"\n")
    check_refused(machine, 13, "contract.yaml")


def test_a_list_of_files_that_is_damaged_is_named(machine: Machine) -> None:
    (path,) = (machine.copies / "files").glob("set-*.json")
    path.write_text(path.read_text().replace("plan.json", "plan.jsom"))
    check_refused(machine, 13, path.name)


def test_a_plan_of_another_run_is_told(machine: Machine) -> None:
    shutil.copytree(machine.lost / "runs/one", machine.folder / "other")
    plan = read_json(machine.folder / "other/plan.json")
    write_json(machine.folder / "other/plan.json", {**plan, "hash": "0" * 64})
    # As if it had been written and copied so.
    _copy_again(machine, (machine.folder / "other").rename(machine.folder / "one"))
    check_refused(machine, 13, "its hash does not match its contract and data files")


def test_checkpoints_that_do_not_verify_are_named(machine: Machine) -> None:
    for path in machine.copies.glob("step-*/model.safetensors"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    check_refused(machine, 12, "step-0000000017", "step-0000000014")


def test_checkpoints_that_are_lost_are_told(machine: Machine) -> None:
    for path in machine.copies.glob("step-*"):
        shutil.rmtree(path)
    check_refused(machine, 12, "checkpoints of run one were copied", "are missing")


def test_copies_of_an_earlier_version_lack_the_run(machine: Machine) -> None:
    shutil.rmtree(machine.copies / "files")
    check_refused(machine, 2, "checkpoints alone", "contract, plan, record", "--resume")


def test_the_path_of_a_mounted_folder_is_enough(machine: Machine) -> None:
    shutil.rmtree(machine.copies / "files")
    ran = command("resume", machine.copies)
    assert ran.code == 2
    assert f"found: file://{machine.copies}: " in ran.err


def test_files_of_which_no_checkpoint_was_ever_copied_are_no_finished_run(
    machine: Machine,
) -> None:
    other = shutil.copytree(machine.lost / "runs/alone", machine.folder / "one")
    shutil.rmtree(machine.copies)
    _copy_again(machine, other)
    check_refused(machine, 12, "are missing")


def test_copies_under_another_name_are_refused(machine: Machine) -> None:
    machine.copies.rename(machine.copies.with_name("two"))
    ran = command("resume", f"file://{machine.folder}/away/two")
    assert ran.code == 2
    assert "those of run one" in ran.err


def test_the_folder_above_leads_to_the_run(machine: Machine) -> None:
    ran = command("resume", f"file://{machine.folder}/away")
    assert ran.code == 2
    assert f"try file://{machine.folder}/away/one" in ran.err


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("s3://key:hunter2@bucket/one", "give credentials through the environment"),
        ("nothing://there/one", "is not a supported storage"),
        ("file:///nowhere/one", "there are no copies of a run here"),
    ],
)
def test_an_address_that_cannot_be_is_a_mistake(url: str, says: str, machine: Machine) -> None:
    ran = command("resume", url)
    assert ran.code == 2
    assert says in ran.err
    assert "hunter2" not in ran.err
    assert not machine.run.parent.exists()


def test_without_its_data_the_run_is_back_and_says_what_is_missing(machine: Machine) -> None:
    elsewhere = machine.lost.rename(machine.lost.with_name("moved"))
    try:
        ran = machine.resume()
        assert ran.code == 2, ran.err
        assert f"nothing at {machine.lost}/rows.csv" in ran.err
        assert command("runs", "verify", "one").code == 0
        shutil.copy(elsewhere / "rows.csv", machine.folder / "rows.csv")
        ran = machine.resume()
        assert ran.code in (0, 3), ran.err
        assert "at step 17" in ran.err
        alone = elsewhere / "runs/alone" / WEIGHTS
        assert (machine.run / WEIGHTS).read_bytes() == alone.read_bytes()
    finally:
        elsewhere.rename(machine.lost)


def _copy_again(machine: Machine, path: Path) -> None:
    folder = RunFolder(path)
    sets = open_sets(f"file://{machine.folder}/away", "one")
    copies = RunCopies(folder, sets, read_identity(folder).lineage)
    assert copies.copy(copies.moment())


def check_refused(machine: Machine, code: int, *said: str) -> None:
    """Nothing is left behind, and the copies are as they were."""
    before = tree(machine.copies)
    ran = machine.resume()
    assert ran.code == code, ran.err
    assert all(text in ran.err for text in said), ran.err
    assert not list(machine.run.parent.glob("*"))
    assert not list(machine.run.parent.glob(".*"))
    assert tree(machine.copies) == before
