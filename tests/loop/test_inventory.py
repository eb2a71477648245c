"""A resume that cannot be exact says so before it makes a step."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import Setting, start  # noqa: E402
from trainwright.engine.execution.numeric_env import numerics_of, why_not_exact  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Noted, Resumed, StepKept  # noqa: E402

pytestmark = pytest.mark.torch

HERE = {
    "torch": "2.13.0",
    "threads": 1,
    "ranks": 1,
    "device": "cpu",
    "cpu": "AVX512",
    "cudnn": 90100,
    "deterministic": True,
    "compiler": "g++ 12.2.0",
    "compiler_settings": "none",
}
OTHER = {
    "torch": "2.12.0",
    "threads": 2,
    "ranks": 2,
    "device": "a GPU",
    "cpu": "AVX2",
    "cudnn": 90200,
    "deterministic": False,
    "compiler": "g++ 13.1.0",
    "compiler_settings": "TORCHINDUCTOR_MAX_AUTOTUNE=1",
}


@pytest.mark.row("F-14")
@pytest.mark.parametrize("name", HERE)
def test_each_thing_that_changes_bits_is_told_before_the_first_step(
    name: str, tmp_path: Path
) -> None:
    checkpoints = MemoryCheckpoints()
    first = start(tmp_path, checkpoints, Setting(steps=3))
    first.change(inventory=HERE)
    first.fit()
    second = start(tmp_path, checkpoints, Setting(steps=5), process=1)
    second.change(inventory={**HERE, name: OTHER[name]})
    second.fit()
    kinds = [type(event) for event in second.seen.events]
    (noted,) = [event for event in second.seen.events if isinstance(event, Noted)]
    assert noted.message.endswith(f": {name} {HERE[name]} -> {OTHER[name]}")
    assert kinds.index(Noted) < kinds.index(Resumed) < kinds.index(StepKept)


@pytest.mark.row("F-14")
@pytest.mark.parametrize("before", [HERE, {}, None, {"plan": "a", "data": "b"}])
def test_nothing_is_said_where_nothing_is_known_against_it(before: object, tmp_path: Path) -> None:
    checkpoints = MemoryCheckpoints()
    first = start(tmp_path, checkpoints, Setting(steps=3))
    first.change(inventory=before)
    first.fit()
    second = start(tmp_path, checkpoints, Setting(steps=5), process=1)
    second.change(inventory=HERE)
    second.fit()
    assert not [event for event in second.seen.events if isinstance(event, Noted)]


def test_the_numerics_of_this_machine() -> None:
    found, cpu = numerics_of(torch.device("cpu")), torch.device("cpu")
    assert set(found) == set(HERE) - {"compiler", "compiler_settings"}
    assert why_not_exact(found, numerics_of(cpu)) == ""
    assert set(numerics_of(cpu, compiled=True)) == set(HERE)


def test_the_compiler_of_kernels_and_its_settings_change_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = torch.device("cpu")
    before = numerics_of(cpu, compiled=True)
    for name in ("CACHE_DIR", "COMPILE_THREADS"):
        monkeypatch.setenv(f"TORCHINDUCTOR_{name}", "3")
    assert why_not_exact(before, numerics_of(cpu, compiled=True)) == ""
    monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
    told = why_not_exact(before, numerics_of(cpu, compiled=True))
    assert told.endswith(": compiler_settings none -> TORCHINDUCTOR_MAX_AUTOTUNE=1")
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho another 1.0\n")
    other.chmod(0o755)
    monkeypatch.setenv("CXX", str(other))
    found = numerics_of(cpu, compiled=True)
    assert found["compiler"] == "another 1.0"
    assert "-> another 1.0" in why_not_exact(before, found)
