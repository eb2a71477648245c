"""State that comes back from a checkpoint whose hashes are right and whose values are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

from canary import Setting, start
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.store import Loaded, NoCheckpoint
from trainwright.checkpoint.store_calls import calls_of
from trainwright.core.errors import NoValidCheckpoint
from trainwright.core.files import Json
from trainwright.engine.restore_state import restoring
from trainwright.testing.fakes import MemoryCheckpoints

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ("progress", {"step": 2}),
        ("progress", {"step": 9}),
        ("progress", {"samples": -1}),
        ("progress", {"attempted": "3"}),
        ("patience", {}),
        ("patience", []),
        ("random", {"python": 5}),
        ("optimizer", None),
    ],
)
def test_values_that_cannot_be_restored(tmp_path: Path, part: str, values: Json) -> None:
    store = MemoryCheckpoints()
    start(tmp_path / "a", store, Setting(steps=3)).fit()

    def tampered(up_to: int | None = None, further: int = 0) -> Loaded | NoCheckpoint:
        loaded = store.newest_valid(up_to, further)
        assert isinstance(loaded, Loaded)
        old = loaded.parts[part]
        fixed = {**old.values, **values} if part == "progress" else values
        parts: Mapping[str, Snapshot] = loaded.parts
        return replace(loaded, parts={**parts, part: Snapshot.owning(old.tensors, fixed)})

    again = start(tmp_path / "a", store, Setting(steps=4))
    again.change(checkpoints=replace(calls_of(store), newest_valid=tampered))
    with pytest.raises(NoValidCheckpoint, match=f"{part} of .* cannot be restored"):
        again.fit()


@pytest.mark.parametrize(
    "error", [MemoryError("10 GB"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_memory_that_runs_out_says_nothing_about_the_checkpoint(
    tmp_path: Path, error: Exception
) -> None:
    store = MemoryCheckpoints()
    start(tmp_path / "a", store, Setting(steps=1)).fit()
    loaded = store.newest_valid()
    assert isinstance(loaded, Loaded)
    with pytest.raises(type(error)) as raised, restoring(loaded, "optimizer"):
        raise error
    assert raised.value is error
