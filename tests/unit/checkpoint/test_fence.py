"""Copies made while the training goes on: whole or refused, whoever writes and however."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from deadlines import within  # noqa: E402
from saves import NEXT_CALLS, leave_copies_to_training  # noqa: E402
from trainwright.checkpoint.background_save import BackgroundCheckpoints  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.states.copy_fence import Fence, TornSnapshot  # noqa: E402
from trainwright.checkpoint.store import Loaded, NoCheckpoint, SaveOutcome  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402

pytestmark = pytest.mark.torch

KINDS: Mapping[str, Callable[[], Tensor]] = {
    "matrix": lambda: torch.randn(40, 30),
    "counter": lambda: torch.zeros(()),
    "empty": lambda: torch.empty(0),
    "not a number": lambda: torch.full((3,), torch.nan),
    "bf16": lambda: torch.randn(7, 5, dtype=torch.bfloat16),
    "float8": lambda: torch.randn(40).to(torch.float8_e4m3fn),
    "quantized": lambda: torch.randint(0, 256, (300,), dtype=torch.uint8),
    "channels last": lambda: torch.randn(4, 3, 5, 5).to(memory_format=torch.channels_last),
    "transposed": lambda: torch.randn(6, 9).t(),
    "every second": lambda: torch.randn(20)[::2],
    "parameter": lambda: torch.nn.Parameter(torch.randn(5, 5)),
}


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def taken(store: BackgroundCheckpoints, tensors: Mapping[str, Tensor], step: int = 1) -> None:
    with store.taking():
        parts = {"state": Snapshot(tensors=tensors, updated=tensors)}
    store.save(step, parts, {})


@pytest.mark.parametrize("by_thread", [True, False])
def test_a_copy_is_the_tensor_as_it_was_at_the_boundary(
    by_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_thread:
        leave_copies_to_training(monkeypatch)
    fence, inner = Fence(), MemoryCheckpoints()
    store = BackgroundCheckpoints(inner, fence)
    for step in (1, 2):
        live = {kind: make() for kind, make in KINDS.items()}
        expected = {kind: tensor.detach().clone() for kind, tensor in live.items()}
        taken(store, live, step)
        fence.wait()
        for tensor in live.values():
            tensor.detach().zero_()
        found = store.newest_valid()
        assert isinstance(found, Loaded)
        assert found.step == step
        for kind, tensor in found.parts["state"].tensors.items():
            assert torch.equal(bits(tensor), bits(expected[kind])), kind
            assert (tensor.dtype, tensor.is_contiguous()) == (expected[kind].dtype, True)


def in_place(tensor: Tensor) -> None:
    tensor[3, 4] += 1


def behind_its_back(tensor: Tensor) -> None:
    tensor.data.mul_(2)


def by_numpy(tensor: Tensor) -> None:
    tensor.numpy()[:] += 1


def by_fused_kernel(tensor: Tensor) -> None:
    gradient = torch.ones_like(tensor)
    options = {"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0}
    flags = {"nesterov": False, "maximize": False, "is_first_step": False}
    torch._fused_sgd_([tensor], [gradient], [], **options, **flags)


WRITERS = [in_place, behind_its_back, by_numpy, by_fused_kernel]


@pytest.mark.parametrize("call", NEXT_CALLS)
@pytest.mark.parametrize("write", WRITERS)
def test_a_write_that_did_not_wait_is_found_and_nothing_is_saved(
    write: Callable[[Tensor], None], call: str
) -> None:
    inner = MemoryCheckpoints()
    store = BackgroundCheckpoints(inner, Fence())
    tensors = {"other": torch.ones(3), "weight": torch.randn(40, 30)}
    taken(store, tensors)
    write(tensors["weight"])
    with pytest.raises(TornSnapshot, match="weight was written to"):
        NEXT_CALLS[call](store)
    assert inner.kept == []
    # Told once; the next save is whole.
    assert isinstance(store.newest_valid(), NoCheckpoint)
    taken(store, tensors, 2)
    assert [kept.step for kept in store.settled(wait=True)] == [2]


@pytest.mark.parametrize("write", WRITERS)
def test_a_write_behind_the_fence_is_none_of_its_business(write: Callable[[Tensor], None]) -> None:
    fence = Fence()
    store = BackgroundCheckpoints(MemoryCheckpoints(), fence)
    tensors = {"weight": torch.randn(40, 30)}
    taken(store, tensors)
    fence.wait()
    write(tensors["weight"])
    (kept,) = store.settled(wait=True)
    assert isinstance(kept, SaveOutcome)
    assert kept.held_seconds > 0


def test_a_tensor_that_is_replaced_keeps_what_it_was() -> None:
    fence, inner = Fence(), MemoryCheckpoints()
    store = BackgroundCheckpoints(inner, fence)
    parameter = torch.nn.Parameter(torch.ones(3))
    taken(store, {"weight": parameter})
    parameter.data = torch.zeros(3)
    found = store.newest_valid()
    assert isinstance(found, Loaded)
    assert found.parts["state"].tensors["weight"].tolist() == [1, 1, 1]


def test_nothing_is_written_before_the_training_has_waited() -> None:
    fence, inner = Fence(), MemoryCheckpoints()
    store = BackgroundCheckpoints(inner, fence)
    taken(store, {"weight": torch.ones(3)})
    (thread,) = store._writing
    thread.join(0.05)
    assert thread.is_alive()
    assert inner.kept == []
    fence.wait()
    thread.join(within(60))
    assert len(inner.kept) == 1


def test_a_snapshot_that_fails_promises_nothing() -> None:
    fence = Fence()
    store = BackgroundCheckpoints(MemoryCheckpoints(), fence)
    weight = torch.zeros(3)
    with pytest.raises(TypeError), store.taking():
        Snapshot(tensors={"x": weight}, values=object(), updated=["x"])
    fence.wait()
    weight += 1
    taken(store, {"x": weight})
    assert [kept.step for kept in store.settled(wait=True)] == [1]


def test_an_interrupt_in_a_copy_leaves_it_to_the_next_who_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave_copies_to_training(monkeypatch)
    fence, inner = Fence(), MemoryCheckpoints()
    store = BackgroundCheckpoints(inner, fence)
    taken(store, {"a": torch.ones(3), "b": torch.full((3,), 2.0)})
    with monkeypatch.context() as interrupted:

        def interrupt(late: Tensor, other: Tensor) -> None:
            raise KeyboardInterrupt

        interrupted.setattr(Tensor, "copy_", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fence.wait()
    found = store.newest_valid()
    assert isinstance(found, Loaded)
    tensors = found.parts["state"].tensors
    assert [tensors["a"].tolist(), tensors["b"].tolist()] == [[1, 1, 1], [2, 2, 2]]
