"""`runs verify`: a whole run passes, and whatever is changed in it is found by its name."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from command import command, inside, with_layers, write_project
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints
from trainwright.core import files
from trainwright.doctor.verify_run import verify_run
from trainwright.tracking.run_folder import RunFolder

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

NETWORK = with_layers("[8]") + (
    "training:\n  num_epochs: 3\n  batch_size: 32\n  early_stopping: off\n"
    "  checkpointing: {save_every_n_steps: 5}\n"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    write_project(folder, NETWORK)
    with inside(folder):
        assert command("train", "small.yaml", "--run", "one").code in (0, 3)
    return folder / "runs" / "one"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(finished, tmp_path / "runs" / "one")))


def broken(run: RunFolder) -> list[str]:
    return [f"{one.what}: {one.message}" for one in verify_run(run) if one.status == "broken"]


def test_a_whole_run(run: RunFolder) -> None:
    assert {one.status for one in verify_run(run)} == {"whole"}
    ran = command("runs", "verify", str(run.path))
    assert (ran.code, "broken" in ran.out) == (0, False)


def newest(run: RunFolder) -> Path:
    return run.checkpoints / json.loads((run.checkpoints / "pointers.json").read_bytes())["newest"]


def flip(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


DAMAGE: dict[str, tuple[Callable[[RunFolder], object], str]] = {
    "weights": (lambda run: flip(newest(run) / "model.safetensors"), "model.safetensors"),
    "values": (lambda run: flip(newest(run) / "values.json", 5), "values.json"),
    "manifest": (lambda run: flip(newest(run) / "manifest.json", 30), "step-"),
    "a lost file": (lambda run: (newest(run) / "values.json").unlink(), "values.json"),
    "a file too many": (lambda run: (newest(run) / "more").write_text(""), "more"),
    "a lost checkpoint": (lambda run: shutil.rmtree(newest(run)), "not on disk"),
    "ledger": (lambda run: flip(run.checkpoints / "ledger.jsonl", 40), "ledger: line 1"),
    "a pointer": (
        lambda run: (run.checkpoints / "pointers.json").write_text('{"newest": "step-0000000099"}'),
        "pointers: newest names step-0000000099",
    ),
    "a pin": (
        lambda run: (run.checkpoints / "pinned-step-0000000099").write_text(""),
        "the pinned checkpoint is missing",
    ),
    "a lost signal": (
        lambda run: run.signals.write_bytes(run.signals.read_bytes().split(b"\n", 1)[1]),
        "signals: a step is missing",
    ),
    "signals cut": (
        lambda run: run.signals.write_bytes(run.signals.read_bytes().split(b"\n")[0] + b"\n"),
        "signals: they end at step 1",
    ),
    "a lost event": (
        lambda run: run.events.write_bytes(run.events.read_bytes().split(b"\n", 1)[1]),
        "events: an event is missing",
    ),
    "the plan": (
        lambda run: run.plan.write_text(run.plan.read_text().replace('"seed": 0', '"seed": 1')),
        "plan: its hash",
    ),
    "the record": (lambda run: run.record.write_text("{}"), "record: unreadable"),
    "the bundle": (lambda run: flip(run.bundle / "network.safetensors"), "network.safetensors"),
    "the verdict": (lambda run: run.evaluation.unlink(), "evaluation.json is missing"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_found_and_named(run: RunFolder, what: str) -> None:
    damage, said = DAMAGE[what]
    damage(run)
    assert any(said in text for text in broken(run)), broken(run)
    assert command("runs", "verify", str(run.path)).code == 13


@pytest.mark.parametrize("name", ["model.safetensors", "network.safetensors", "evaluation.json"])
def test_a_file_of_another_size_is_not_read(
    run: RunFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is far larger would take hours to hash."""
    places = (newest(run), run.bundle, run.path)
    path = next(place / name for place in places if (place / name).is_file())
    with path.open("ab") as stream:
        stream.write(b" ")
    hash_file, hashed = files.hash_file, []

    def record(file: Path) -> str:
        hashed.append(file)
        return hash_file(file)

    monkeypatch.setattr(files, "hash_file", record)
    found = broken(run)
    assert hashed
    assert path not in hashed
    assert any(name in text for text in found), found


def test_every_bit_of_a_checkpoint_counts(run: RunFolder) -> None:
    choose = random.Random(3)
    files = [*newest(run).iterdir(), run.checkpoints / "ledger.jsonl"]
    for _ in range(60):
        path = choose.choice(files)
        before = path.read_bytes()
        data = bytearray(before)
        bit = choose.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        assert broken(run), f"bit {bit} of {path.name} passed"
        path.write_bytes(before)
    assert not broken(run)


def test_no_checkpoint_that_verifies_is_its_own_exit_code(run: RunFolder) -> None:
    for path in run.checkpoints.glob("step-*"):
        (path / "values.json").write_bytes(b"")
    ran = command("runs", "verify", str(run.path), "--json")
    assert ran.code == 12
    assert {"checkpoints": "none verifies"}.items() <= {
        one["what"]: one["message"] for one in json.loads(ran.out)
    }.items()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_a_number_that_is_none_is_found(tmp_path: Path, dtype: object) -> None:
    run = RunFolder.create(tmp_path, "one")
    for step, number in ((1, torch.inf), (2, torch.nan)):
        weights = torch.tensor([1.0, number, -2.0], dtype=dtype)
        Checkpoints(run.checkpoints, 2).save(step, {"model": Snapshot(tensors={"w": weights})}, {})
    (only,) = broken(run)[:1]
    assert "step-0000000002" in only
    assert "w holds NaN" in only


def test_what_the_next_start_mends_is_a_note(run: RunFolder) -> None:
    (run.path / ".tmp-1-plan.json").write_text("half")
    (run.checkpoints / ".tmp-dead").mkdir()
    with (run.checkpoints / "ledger.jsonl").open("ab") as ledger:
        ledger.write(b'{"half')
    with run.signals.open("ab") as signals:
        signals.write(b'{"step": ')
    assert not broken(run)
    notes = {one.what for one in verify_run(run) if one.status == "note"}
    assert notes == {"ledger", "left over"}
