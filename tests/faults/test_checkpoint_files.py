"""Checkpoints that were damaged, lost, forged or cut short: detected, named and survived.

Rows F-01, F-03, F-16 and F-20 to F-23 of the fault matrix, and F-45 for checkpoint files.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from faults.disks import small_disk
from faults.tiers import times
from trainwright.checkpoint.spare import Spare
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, Loaded, NoCheckpoint
from trainwright.core.errors import NoValidCheckpoint, StorageFailed
from trainwright.core.hashing import hash_bytes, hash_value

pytestmark = pytest.mark.torch

LAST = "step-0000000003"


def parts_of(step: int) -> dict[str, Snapshot]:
    generator = torch.Generator().manual_seed(step)
    tensors = {"weight": torch.rand(6, 5, generator=generator), "bias": torch.full((5,), step)}
    return {
        "model": Snapshot(tensors=tensors),
        "optimizer": Snapshot(tensors={"exp_avg": torch.rand(6, 5, generator=generator)}),
        "progress": Snapshot(values={"step": step}),
    }


def write_three(folder: Path) -> Path:
    checkpoints = Checkpoints(folder, 3)
    for step in (1, 2, 3):
        checkpoints.save(step, parts_of(step), {"seed": 0}, 1 / step)
    return folder


def load(folder: Path) -> Loaded:
    found = Checkpoints(folder, 3).newest_valid()
    assert isinstance(found, Loaded)
    wanted = parts_of(found.step)
    assert found.parts.keys() == wanted.keys()
    for part, snapshot in wanted.items():
        assert found.parts[part].values == snapshot.values
        for name, tensor in snapshot.tensors.items():
            assert torch.equal(found.parts[part].tensors[name], tensor)
    return found


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return write_three(tmp_path / "three")


@pytest.mark.row("F-20")
def test_every_bit_flip_is_detected_and_survived(
    tmp_path: Path, figure: Callable[..., None]
) -> None:
    pristine = write_three(tmp_path / "pristine")
    files = [*sorted((pristine / LAST).iterdir()), pristine / "ledger.jsonl"]
    choose = random.Random(1)
    flips = times(200, 1000)
    for trial in range(flips):
        folder = tmp_path / f"flip-{trial}"
        shutil.copytree(pristine, folder)
        path = folder / choose.choice(files).relative_to(pristine)
        data = bytearray(path.read_bytes())
        bit = choose.randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        found = load(folder)
        assert found.rejected, f"bit {bit} of {path.name} passed"
        if path.name == "ledger.jsonl":
            # The line is lost and named; the manifest vouches for the checkpoint itself.
            assert "ledger.jsonl:" in found.rejected[0]
            assert found.step == 3
        else:
            assert found.step == 2
            assert LAST in found.rejected[0]
            assert [p for p in folder.iterdir() if p.name.startswith("quarantine-")]
        again = load(folder)
        assert (again.step, again.rejected) == (found.step, ())
        shutil.rmtree(folder)
    figure(bits_flipped=flips, bits_unseen=0)


@pytest.mark.row("F-21")
@pytest.mark.parametrize("name", ["manifest.json", "values.json", "model.safetensors"])
@pytest.mark.parametrize("keep", [0, 1, 20, -1])
def test_truncated_files(three: Path, name: str, keep: int) -> None:
    path = three / LAST / name
    data = path.read_bytes()
    path.write_bytes(data[:keep])
    found = load(three)
    assert found.step == 2
    assert name in found.rejected[0]


@pytest.mark.row("F-22")
@pytest.mark.parametrize("name", ["manifest.json", "values.json", "model.safetensors"])
def test_missing_files(three: Path, name: str) -> None:
    (three / LAST / name).unlink()
    found = load(three)
    assert found.step == 2
    assert name in found.rejected[0]


@pytest.mark.row("F-21")
def test_a_zero_filled_tail(three: Path) -> None:
    path = three / LAST / "optimizer.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-40] + bytes(40))
    assert load(three).step == 2


@pytest.mark.row("F-21")
@pytest.mark.parametrize("name", ["manifest.json", "values.json", "model.safetensors"])
def test_a_file_of_another_checkpoint(three: Path, name: str) -> None:
    shutil.copy(three / "step-0000000002" / name, three / LAST / name)
    assert load(three).step == 2


@pytest.mark.row("F-21")
def test_two_swapped_checkpoints(three: Path) -> None:
    (three / LAST).rename(three / "aside")
    (three / "step-0000000002").rename(three / LAST)
    (three / "aside").rename(three / "step-0000000002")
    found = load(three)
    assert found.step == 1
    assert len(found.rejected) == 2


@pytest.mark.row("F-21")
def test_a_checkpoint_of_another_run(three: Path, tmp_path: Path) -> None:
    other = write_three(tmp_path / "other")
    Checkpoints(other, 3).save(9, parts_of(9), {})
    shutil.copytree(other / "step-0000000009", three / "step-0000000009")
    found = load(three)
    assert found.step == 3
    assert "another run" in found.rejected[0]


@pytest.mark.row("F-22")
def test_a_lost_checkpoint_is_named(three: Path) -> None:
    shutil.rmtree(three / LAST)
    found = load(three)
    assert found.step == 2
    assert LAST in found.rejected[0]


def test_a_manifest_that_only_the_ledger_contradicts(three: Path) -> None:
    ledger = (three / "ledger.jsonl").read_bytes()
    path = three / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    outer["content"]["inventory"] = {"seed": 1}
    sign(path, outer)
    (three / "ledger.jsonl").write_bytes(ledger)
    found = load(three)
    assert found.step == 2
    assert "not the one in the ledger" in found.rejected[0]


@pytest.mark.row("F-22")
def test_without_ledger_the_manifest_still_vouches_for_itself(three: Path) -> None:
    (three / "ledger.jsonl").unlink()
    path = three / LAST / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    found = load(three)
    assert (found.step, found.inventory) == (2, {"seed": 0})


def test_a_removal_that_was_cut_short_is_finished(
    three: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(spare: Spare, name: str) -> None:
        raise OSError(5, "Input/output error")

    checkpoints = Checkpoints(three, 1)
    monkeypatch.setattr(Spare, "keep", fail)
    saved = checkpoints.save(4, parts_of(4), {})
    assert "Input/output error" in saved.warnings[0]
    assert (three / "step-0000000001").exists()
    monkeypatch.undo()
    found = load(three)
    assert (found.step, found.rejected) == (4, ())
    assert not (three / "step-0000000001").exists()


@pytest.mark.row("F-22")
def test_a_torn_last_line_of_the_ledger(three: Path) -> None:
    ledger = three / "ledger.jsonl"
    ledger.write_bytes(ledger.read_bytes()[:-30])
    found = load(three)
    assert (found.step, found.rejected) == (3, ())
    assert len(ledger.read_bytes().splitlines()) == 3


@pytest.mark.row("F-20")
@pytest.mark.parametrize("bit", range(8))
def test_a_changed_last_newline_of_the_ledger_is_no_torn_line(three: Path, bit: int) -> None:
    ledger = three / "ledger.jsonl"
    data = bytearray(ledger.read_bytes())
    data[-1] ^= 1 << bit
    ledger.write_bytes(data)
    found = load(three)
    assert found.step == 3
    assert "ledger.jsonl:3: its newline is another byte" in found.rejected[0]
    assert load(three).rejected == ()


@pytest.mark.row("F-22")
def test_ledger_and_pointers_are_rebuilt(three: Path) -> None:
    (three / "ledger.jsonl").unlink()
    (three / "pointers.json").unlink()
    assert load(three).step == 3
    assert json.loads((three / "pointers.json").read_bytes())["newest"] == LAST
    Checkpoints(three, 3).save(4, parts_of(4), {})
    assert load(three).step == 4


@pytest.mark.row("F-22")
def test_without_ledger_a_damaged_newest_is_still_named(three: Path) -> None:
    (three / "ledger.jsonl").unlink()
    (three / LAST / "manifest.json").write_bytes(b"{}")
    found = load(three)
    assert found.step == 2
    assert LAST in found.rejected[0]


@pytest.mark.row("F-23")
def test_all_damaged_stops_and_never_starts_from_scratch(three: Path) -> None:
    for folder in three.glob("step-*"):
        (folder / "values.json").write_bytes(b"")
    for _ in range(2):
        with pytest.raises(NoValidCheckpoint) as caught:
            Checkpoints(three, 3).newest_valid()
        assert caught.value.exit_code == 12
    shutil.rmtree(three)
    write_three(three)
    for folder in three.glob("step-*"):
        shutil.rmtree(folder)
    with pytest.raises(NoValidCheckpoint, match=LAST):
        Checkpoints(three, 3).newest_valid()


@pytest.mark.row("F-23")
def test_only_an_emptied_ledger_is_history_too(three: Path) -> None:
    for path in three.glob("step-*"):
        shutil.rmtree(path)
    (three / "ledger.jsonl").write_bytes(b"")
    with pytest.raises(NoValidCheckpoint):
        Checkpoints(three, 3).newest_valid()


# A process that dies in the middle of a save, or of what follows it.

POINTS = [
    "ckpt.open",
    "ckpt.write",
    "ckpt.fsync",
    "ckpt.manifest",
    "ckpt.pre_rename",
    "ckpt.post_rename",
    "ckpt.ledger",
    "ckpt.pointer",
    "ckpt.retain",
]


@pytest.mark.row("F-01")
@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize("point", POINTS)
def test_death_at_any_point_of_a_save(
    three: Path, point: str, same_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = 3 if same_step else 4

    def die(reached: str) -> None:
        if reached == point:
            os._exit(9)

    child = os.fork()
    if child == 0:
        # Both modules hold the function by its name.
        from trainwright.checkpoint import commit, local, store

        commit.reached = local.reached = store.reached = die  # type: ignore[assignment]
        Checkpoints(three, 3).save(step, parts_of(step), {"seed": 1})
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    found = load(three)
    committed = point in POINTS[POINTS.index("ckpt.post_rename") :]
    assert found.rejected == ()
    assert found.step == (step if committed or same_step else 3)
    assert found.inventory == {"seed": 1 if committed else 0}
    left = {path.name for path in three.iterdir() if not path.name.startswith("step-")}
    assert left == {"ledger.jsonl", "pointers.json"}
    Checkpoints(three, 3).save(5, parts_of(5), {})
    assert load(three).step == 5


SAVE_FOR_EVER = """
import sys, torch
from pathlib import Path
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints
checkpoints = Checkpoints(Path(sys.argv[1]), 2)
for step in range(1, 10**6):
    state = {"model": Snapshot(tensors={"w": torch.full((20000,), float(step))}, values=step)}
    checkpoints.save(step, state, {})
    print(step, flush=True)
"""


@pytest.mark.row("F-03")
def test_killed_while_saving_without_a_pause(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOR_EVER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    acknowledged = 0
    for acknowledged in (int(line) for line in process.stdout):
        if acknowledged == 25:
            process.send_signal(signal.SIGKILL)
            break
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    acknowledged = int(rest[-1]) if rest else acknowledged
    found = Checkpoints(tmp_path, 2).newest_valid()
    assert isinstance(found, Loaded)
    assert found.step in (acknowledged, acknowledged + 1)
    assert torch.equal(found.parts["model"].tensors["w"], torch.full((20000,), float(found.step)))


# A disk that takes nothing more.


def big(step: int, mebibytes: int) -> dict[str, Snapshot]:
    return {"model": Snapshot(tensors={"w": torch.full((mebibytes << 18,), float(step))})}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 8192) as folder:
        yield folder


@pytest.mark.row("F-16")
@pytest.mark.root
def test_a_full_disk(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(disk, 2)
    checkpoints.save(1, big(1, 2), {})
    (disk / "filler").write_bytes(bytes(4 << 20))
    used = shutil.disk_usage(disk).used
    with pytest.raises(StorageFailed, match="are free and"):
        checkpoints.save(2, big(2, 2), {})
    # The same without the look ahead: another process took the space in between.
    monkeypatch.setattr("trainwright.checkpoint.commit._check_room", lambda *_: None)
    with pytest.raises(StorageFailed, match="No space left"):
        checkpoints.save(2, big(2, 3), {})
    assert shutil.disk_usage(disk).used == used
    found = Checkpoints(disk, 2).newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.rejected) == (1, ())
    (disk / "filler").unlink()
    checkpoints.save(3, big(3, 2), {})
    assert checkpoints.newest_valid().step == 3  # type: ignore[union-attr]


@pytest.mark.row("F-16")
def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(1, big(1, 1), {})
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(StorageFailed, match="File too large"):
            checkpoints.save(2, big(2, 3), {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.glob(".tmp-*"))
    checkpoints.save(3, big(3, 3), {})
    assert Checkpoints(tmp_path, 2).newest_valid().step == 3  # type: ignore[union-attr]


@pytest.mark.row("F-16")
@pytest.mark.parametrize("point", POINTS[: POINTS.index("ckpt.ledger")])
@pytest.mark.parametrize("step", [3, 4])
def test_an_error_at_any_point_leaves_what_was_there(
    three: Path, point: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(reached: str) -> None:
        if reached == point:
            raise OSError(28, "No space left on device")

    checkpoints = Checkpoints(three, 3)
    monkeypatch.setattr("trainwright.checkpoint.commit.reached", fail)
    with pytest.raises(StorageFailed):
        checkpoints.save(step, parts_of(step), {"seed": 1})
    names = {path.name for path in three.iterdir()}
    assert names == {"step-0000000001", "step-0000000002", LAST, "ledger.jsonl", "pointers.json"}
    found = load(three)
    assert (found.step, found.inventory, found.rejected) == (3, {"seed": 0}, ())
    monkeypatch.undo()
    checkpoints.save(step, parts_of(step), {"seed": 2})
    assert load(three).inventory == {"seed": 2}


@pytest.mark.row("F-19")
def test_the_folder_was_deleted(three: Path) -> None:
    checkpoints = Checkpoints(three, 3)
    checkpoints.newest_valid()
    shutil.rmtree(three)
    with pytest.raises(StorageFailed):
        checkpoints.save(4, parts_of(4), {})
    assert not three.exists()


# Files that somebody made on purpose, with hashes that fit.


def forge(folder: Path, name: str, data: bytes) -> None:
    """Put `data` in the place of a file and make manifest and ledger agree with it."""
    (folder / LAST / name).unlink(missing_ok=True)
    (folder / LAST / name).write_bytes(data)
    path = folder / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    for file in outer["content"]["files"]:
        if file["name"] == name:
            file.update(size_bytes=len(data), sha256=hash_bytes(data))
    sign(path, outer)


def sign(path: Path, outer: dict[str, object]) -> None:
    outer["sha256"] = hash_value(outer["content"])
    text = json.dumps(outer, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    path.write_text(text)
    (path.parent.parent / "ledger.jsonl").unlink(missing_ok=True)


def safetensors(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def tensor(shape: list[int], begin: int, end: int) -> dict[str, object]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


class Canary:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("canary",)


def pickled() -> bytes:
    import pickle

    return pickle.dumps(Canary())


@pytest.fixture
def one_hostile_file(figure: Callable[..., None]) -> None:
    """Counted for the page."""
    figure(hostile_files=1, executions=0)


HOSTILE_TENSORS = {
    "pickle": pickled(),
    "huge header": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "header past the end": (10_000).to_bytes(8, "little") + b"{}",
    "deep header": safetensors(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "overlap": safetensors({"a": tensor([2], 0, 8), "b": tensor([2], 4, 12)}, bytes(12)),
    "hole": safetensors({"a": tensor([1], 0, 4), "b": tensor([1], 8, 12)}, bytes(12)),
    "past the end": safetensors({"a": tensor([100], 0, 400)}, bytes(4)),
    "negative": safetensors({"a": tensor([-1], 0, 4)}, bytes(4)),
    "overflow": safetensors({"a": tensor([2**62, 2**62], 0, 4)}, bytes(4)),
    "other tensors": safetensors({"a": tensor([1], 0, 4)}, bytes(4)),
    "not json": safetensors(b"\xff\xfe"),
    "empty": b"",
}
HOSTILE_VALUES = {
    "pickle": pickled(),
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "not a number": b'{"model": NaN}\n',
    "infinite": b'{"model": 1e999}\n',
    "long number": b'{"model": ' + b"9" * 10_000 + b"}\n",
    "twice": b'{\n  "model": null,\n  "model": null\n}\n',
    "not UTF-8": b'"\xff"',
    "a list": b"[]\n",
}


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_TENSORS)
def test_hostile_tensors(
    three: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forge(three, "model.safetensors", HOSTILE_TENSORS[kind])
    assert load(three).step == 2
    assert not (tmp_path / "canary").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_VALUES)
def test_hostile_values(
    three: Path, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    forge(three, "values.json", HOSTILE_VALUES[kind])
    assert load(three).step == 2
    assert not (tmp_path / "canary").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("kind", HOSTILE_VALUES)
def test_hostile_manifest_and_ledger(three: Path, kind: str) -> None:
    (three / LAST / "manifest.json").write_bytes(HOSTILE_VALUES[kind])
    (three / "ledger.jsonl").write_bytes(HOSTILE_VALUES[kind].replace(b"\n", b"") + b"\n")
    assert load(three).step == 2


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("name", ["../three/x", "/etc/passwd", "a/b", "..", "a\0b", ".tmp-x", ""])
def test_a_manifest_with_names_that_lead_elsewhere(three: Path, name: str) -> None:
    path = three / LAST / "manifest.json"
    outer = json.loads(path.read_bytes())
    outer["content"]["files"][0]["name"] = name
    sign(path, outer)
    found = load(three)
    assert found.step == 2
    assert "safe name" in found.rejected[0]


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
@pytest.mark.parametrize("name", ["model.safetensors", "values.json", "manifest.json"])
def test_links_are_not_followed(three: Path, tmp_path: Path, name: str) -> None:
    path = three / LAST / name
    path.rename(tmp_path / name)
    path.symlink_to(tmp_path / name)
    assert load(three).step == 2
    assert (tmp_path / name).exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
def test_a_linked_checkpoint_is_not_followed(three: Path, tmp_path: Path) -> None:
    (three / LAST).rename(tmp_path / "elsewhere")
    (three / LAST).symlink_to(tmp_path / "elsewhere")
    assert load(three).step == 2
    assert (tmp_path / "elsewhere" / "manifest.json").exists()


@pytest.mark.usefixtures("one_hostile_file")
@pytest.mark.row("F-45")
def test_a_pipe_does_not_hang(three: Path) -> None:
    path = three / LAST / "values.json"
    path.unlink()
    os.mkfifo(path)
    assert load(three).step == 2


def test_nothing_is_left_of_a_save_before_the_first(tmp_path: Path) -> None:
    (tmp_path / ".tmp-dead").mkdir()
    (tmp_path / ".tmp-dead" / "values.json").write_bytes(b"half")
    assert isinstance(Checkpoints(tmp_path, 1).newest_valid(), NoCheckpoint)
    assert not list(tmp_path.iterdir())
