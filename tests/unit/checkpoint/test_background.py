"""Saving in the background: an unchanging copy, one save at a time, no error that is not told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from deadlines import within
from saves import NEXT_CALLS
from trainwright.checkpoint.background_save import BackgroundCheckpoints
from trainwright.checkpoint.keeping.retention import NOT_SCORED, NotScored
from trainwright.checkpoint.state import Snapshot
from trainwright.checkpoint.states.copy_fence import Fence
from trainwright.checkpoint.store import Begun, Checkpoints, Loaded, SaveOutcome
from trainwright.core.errors import StorageFailed
from trainwright.core.faultpoints import arm
from trainwright.core.files import Json
from trainwright.testing.fakes import CounterState, MemoryCheckpoints

pytestmark = pytest.mark.torch


class Gate:
    """A store that writes only once it is let, and counts the saves that are under way."""

    def __init__(self) -> None:
        self.inner = MemoryCheckpoints()
        self.open = threading.Event()
        self.under_way = 0
        self.most = 0
        self.fails = False
        self.taking, self.settled = self.inner.taking, self.inner.settled
        self.newest_valid = self.inner.newest_valid
        self.pointers: list[list[int]] = []

    def save(
        self,
        step: int,
        parts: Mapping[str, Snapshot],
        inventory: Json,
        score: float | NotScored = NOT_SCORED,
    ) -> SaveOutcome:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        assert self.open.wait(within(60))
        self.under_way -= 1
        if self.fails:
            raise StorageFailed("no space left")
        tensors = [tensor for shot in parts.values() for tensor in shot.tensors.values()]
        self.pointers.append([tensor.data_ptr() for tensor in tensors])
        # What is lent comes back: keep a copy.
        copies = {
            name: Snapshot(tensors=shot.tensors, values=shot.values) for name, shot in parts.items()
        }
        return self.inner.save(step, copies, inventory, score)


def begin(store: BackgroundCheckpoints, state: CounterState) -> None:
    with store.taking():
        parts = {"state": state.snapshot()}
    assert store.save(state.count, parts, {}) == Begun(state.count)


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


def test_what_is_written_is_the_state_at_the_boundary(gate: Gate) -> None:
    store, state = BackgroundCheckpoints(gate, Fence()), CounterState()
    state.advance()
    begin(store, state)
    state.advance()
    assert store.settled(wait=False) == ()
    gate.open.set()
    found = store.newest_valid()
    assert isinstance(found, Loaded)
    assert (found.step, found.parts["state"].values) == (1, {"count": 1})
    assert found.parts["state"].tensors["weights"].tolist() == [1, 1, 1, 1]
    assert [kept.step for kept in store.settled(wait=False)] == [1]
    assert store.settled(wait=True) == ()


def test_the_second_save_waits_for_the_first(gate: Gate) -> None:
    store, state = BackgroundCheckpoints(gate, Fence()), CounterState()
    begin(store, state)
    threading.Timer(0.05, gate.open.set).start()
    for _ in range(5):
        state.advance()
        begin(store, state)
    assert [kept.step for kept in store.settled(wait=True)] == [0, 1, 2, 3, 4, 5]
    assert gate.most == 1
    weights = [kept.parts["state"].tensors["weights"][0].item() for kept in gate.inner.kept]
    assert weights == [0, 1, 2, 3, 4, 5]
    # After the first save no memory is asked for any more.
    assert len({tuple(pointers) for pointers in gate.pointers}) == 1


def test_memory_of_a_state_that_shrank_is_given_up(gate: Gate) -> None:
    gate.open.set()
    store = BackgroundCheckpoints(gate, Fence())
    for sizes in ((10, 20, 30), (10,), (10,), (10,)):
        with store.taking():
            parts = {"state": Snapshot(tensors={str(n): torch.zeros(n) for n in sizes})}
        store.save(1, parts, {})
    store.settled(wait=True)
    held = [tensor for free in store._memory._free.values() for tensor in free]
    assert [len(tensor) for tensor in held] == [10]


@pytest.mark.parametrize("call", NEXT_CALLS)
def test_an_error_is_raised_by_the_next_call_and_once(gate: Gate, call: str) -> None:
    store, state = BackgroundCheckpoints(gate, Fence()), CounterState()
    gate.fails = True
    gate.open.set()
    begin(store, state)
    for thread in store._writing:
        thread.join()
    with pytest.raises(StorageFailed, match="no space left"):
        NEXT_CALLS[call](store)
    gate.fails = False
    begin(store, state)
    assert len(store.settled(wait=True)) == 1


def test_a_snapshot_that_fails_leaves_nothing_lent(gate: Gate) -> None:
    store = BackgroundCheckpoints(gate, Fence())
    with pytest.raises(TypeError), store.taking():
        Snapshot(tensors={"x": torch.zeros(3)}, values=object())
    assert store._memory._lent == []


def test_snapshots_outside_of_the_block_have_memory_of_their_own(gate: Gate) -> None:
    store, state = BackgroundCheckpoints(gate, Fence()), CounterState()
    gate.open.set()
    begin(store, state)
    kept = state.snapshot()
    state.advance()
    begin(store, state)
    store.settled(wait=True)
    assert kept.tensors["weights"].tolist() == [0, 0, 0, 0]


def test_a_full_disk_leaves_the_older_checkpoint_and_the_next_save_succeeds(tmp_path: Path) -> None:
    store, state = BackgroundCheckpoints(Checkpoints(tmp_path, 1), Fence()), CounterState()
    begin(store, state)
    store.settled(wait=True)
    state.advance()
    arm("ckpt.write:1:enospc")
    begin(store, state)
    with pytest.raises(StorageFailed, match="No space left"):
        store.settled(wait=True)
    arm("")
    found = store.newest_valid()
    assert isinstance(found, Loaded)
    assert found.step == 0
    assert not list(tmp_path.glob(".tmp-*"))
    begin(store, state)
    found = store.newest_valid()
    assert isinstance(found, Loaded)
    assert found.step == 1
