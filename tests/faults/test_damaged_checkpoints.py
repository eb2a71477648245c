"""Checkpoints that were damaged or lost: detected, named and survived. Rows F-20 to F-23."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.three_checkpoints import LAST, load, parts_of, sign, write_three
from faults.tiers import times
from trainwright.checkpoint.storages.folder_reuse import Spare
from trainwright.checkpoint.store import Checkpoints
from trainwright.core.errors import NoValidCheckpoint

pytestmark = pytest.mark.torch


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
