"""Saving, loading and retention of checkpoints on a sound disk."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from trainwright.checkpoint.keeping.retention import NOT_SCORED
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Checkpoints, Loaded, NoCheckpoint
from trainwright.core.errors import Mistake

pytestmark = pytest.mark.torch


def parts_of(step: int) -> dict[str, Snapshot]:
    return {
        "model": Snapshot(tensors={"weight": torch.full((3, 2), float(step))}),
        "rest": Snapshot(values={"step": step, "best": -math.inf, "rate": 0.1}),
    }


def loaded(checkpoints: Checkpoints) -> Loaded:
    found = checkpoints.newest_valid()
    assert isinstance(found, Loaded)
    return found


def test_nothing_saved_is_not_an_error(tmp_path: Path) -> None:
    assert isinstance(Checkpoints(tmp_path / "new", 3).newest_valid(), NoCheckpoint)
    assert isinstance(Checkpoints(tmp_path / "new", 3).newest_valid(), NoCheckpoint)


def test_what_was_saved_comes_back_bit_for_bit(tmp_path: Path) -> None:
    tensors = {
        "f64": torch.rand(3, dtype=torch.float64),
        "bf16": torch.rand(2, 2).to(torch.bfloat16),
        "half": torch.rand(2).half(),
        "int": torch.tensor(2**62),
        "bool": torch.tensor([True, False]),
        "none": torch.empty(0, 4),
        "nan": torch.tensor([math.nan, math.inf, -0.0]),
        "bytes": torch.arange(256, dtype=torch.uint8),
    }
    values = {"tiny": 5e-324, "third": 1 / 3, "nan": math.nan, "big": 2**200, "text": "é\n"}
    saved = Checkpoints(tmp_path, 3).save(
        7, {"all": Snapshot(tensors=tensors, values=values)}, {"seed": 1}, 0.5
    )
    found = loaded(Checkpoints(tmp_path, 3))
    assert (found.name, found.step, found.score) == (saved.name, 7, 0.5)
    assert saved.name == "step-0000000007"
    assert found.inventory == {"seed": 1}
    assert found.rejected == ()
    for name, tensor in tensors.items():
        back = found.parts["all"].tensors[name]
        assert back.dtype == tensor.dtype
        assert back.shape == tensor.shape
        assert back.reshape(-1).view(torch.uint8).tolist() == (
            tensor.reshape(-1).view(torch.uint8).tolist()
        )
    back_values = found.parts["all"].values
    assert math.isnan(back_values.pop("nan"))
    assert back_values == {key: value for key, value in values.items() if key != "nan"}


@pytest.mark.row("F-64")
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_files_are_safetensors_and_who_may_read_them_is_the_umasks(
    tmp_path: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        save_and_look(tmp_path, umask)
    finally:
        os.umask(before)


def save_and_look(tmp_path: Path, umask: int) -> None:
    Checkpoints(tmp_path, 3).save(1, parts_of(1), {})
    folder = tmp_path / "step-0000000001"
    assert torch.equal(load_file(folder / "model.safetensors")["weight"], torch.ones(3, 2))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~umask
    mode = 0o666 & ~umask
    assert all(stat.S_IMODE(path.stat().st_mode) == mode for path in folder.iterdir())
    assert stat.S_IMODE((tmp_path / "ledger.jsonl").stat().st_mode) == mode


def test_manifest_names_every_tensor(tmp_path: Path) -> None:
    Checkpoints(tmp_path, 3).save(1, parts_of(1), {"lr": math.inf})
    manifest = json.loads((tmp_path / "step-0000000001" / "manifest.json").read_bytes())
    assert manifest["content"]["parts"]["model"] == {"weight": {"dtype": "F32", "shape": [3, 2]}}
    assert {file["name"] for file in manifest["content"]["files"]} == {
        "values.json",
        "model.safetensors",
    }


def test_a_snapshot_is_a_copy() -> None:
    live = torch.zeros(3)
    values = {"list": [1, 2]}
    snapshot = Snapshot(tensors={"x": live}, values=values)
    live += 1
    values["list"].append(3)
    assert torch.equal(snapshot.tensors["x"], torch.zeros(3))
    assert snapshot.values == {"list": [1, 2]}


@pytest.mark.parametrize("value", [object(), {1: 2}, b"bytes", {"$float": "nan"}, {1, 2}])
def test_values_that_json_lacks_are_refused(value: object) -> None:
    with pytest.raises(TypeError):
        Snapshot(values=value)


def test_a_part_cannot_leave_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Mistake):
        Checkpoints(tmp_path, 1).save(1, {"../other": Snapshot(values=1)}, {})
    assert not list(tmp_path.iterdir())


def test_the_same_step_is_replaced(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 3)
    checkpoints.save(80, parts_of(1), {})
    checkpoints.save(100, parts_of(2), {})
    checkpoints.save(80, parts_of(3), {})
    found = loaded(Checkpoints(tmp_path, 3))
    assert (found.step, found.parts["rest"].values["step"]) == (80, 3)


def test_newest_two_best_and_resumed_from_stay(tmp_path: Path) -> None:
    first = Checkpoints(tmp_path, 1, "max")
    first.save(0, parts_of(0), {})
    first.save(1, parts_of(1), {}, 0.9)
    first.save(2, parts_of(2), {}, math.nan)
    second = Checkpoints(tmp_path, 1, "max")
    assert loaded(second).step == 2
    for step in range(3, 8):
        second.save(step, parts_of(step), {}, 0.5)
    steps = sorted(int(path.name[-10:]) for path in tmp_path.glob("step-*"))
    assert steps == [1, 2, 6, 7]
    best = second.best_valid()
    assert isinstance(best, Loaded)
    assert best.step == 1
    pointers = json.loads((tmp_path / "pointers.json").read_bytes())
    assert pointers == {"newest": "step-0000000007", "best": "step-0000000001"}


def test_no_score_means_no_best(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, 2)
    checkpoints.save(1, parts_of(1), {}, math.nan)
    assert isinstance(checkpoints.best_valid(), NoCheckpoint)


scores = st.one_of(
    st.just(NOT_SCORED), st.floats(), st.sampled_from([0.5, 0.5, math.nan, math.inf])
)


@given(st.lists(st.tuples(st.integers(0, 5), scores), min_size=1, max_size=8), st.booleans())
@settings(max_examples=25, deadline=None)
def test_ledger_and_disk_agree_after_any_history(tmp_path_factory, saves, reopen) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("history")
    checkpoints = Checkpoints(folder, 2)
    for mark, (step, score) in enumerate(saves):
        checkpoints.save(step, parts_of(mark), {}, score)
        if reopen:
            checkpoints = Checkpoints(folder, 2)
            assert loaded(checkpoints).parts["rest"].values["step"] == mark
    found = loaded(Checkpoints(folder, 2))
    assert found.rejected == ()
    assert found.parts["rest"].values["step"] == len(saves) - 1
    names = {path.name for path in folder.iterdir() if not path.name.startswith("step-")}
    assert names == {"ledger.jsonl", "pointers.json"}
