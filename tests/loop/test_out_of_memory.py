"""Memory that runs out: the micro-batches become smaller, the update stays, and a resumed run has
the same bits as the one that went on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import STEPS, Canary, Killed, Setting, data, everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from faults.tiers import each  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, CheckpointStore, Loaded  # noqa: E402
from trainwright.data.loading.feed import Batch, Feed, StepBatches  # noqa: E402
from trainwright.engine.execution.oom import BackwardOutOfMemory, is_out_of_memory  # noqa: E402
from trainwright.engine.guards.step_guard import HaltOnNonFinite  # noqa: E402
from trainwright.engine.loader_feed import tensors_of  # noqa: E402
from trainwright.engine.update.oom_policy import (  # noqa: E402
    AlsoAfterSplit,
    MemoryGuard,
    SplitOnOutOfMemory,
    rows_are_mixed,
)
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.objective.losses import LossSum, Objective  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, Noted, Saved, StepKept  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("no_search_for_garbage")]

REAL = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you "
    "tried to allocate 100000000 bytes. Error code 12 (Cannot allocate memory)"
)


@dataclass
class SmallMemory:
    """An objective on a machine with too little memory, as its allocator says it: at the forward
    passes that `fails` names by their number and rows, or in the backward pass behind them."""

    objective: Objective
    fails: Callable[[int, int], bool]
    in_backward: bool = False
    passes: int = 0

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        self.passes += 1
        fails = self.fails(self.passes, len(batch[0]))
        if fails and not self.in_backward:
            self.objective(model, batch)  # draws numbers and moves running statistics
            raise RuntimeError(REAL)
        loss = self.objective(model, batch)
        if fails:
            loss.sum.register_hook(self._fail)
        return loss

    def _fail(self, _: torch.Tensor) -> None:
        raise RuntimeError(REAL)


# Which errors mean it


def test_the_allocator_of_the_cpu_says_so() -> None:
    with pytest.raises(RuntimeError) as found:
        torch.empty(2**55, dtype=torch.uint8)
    assert is_out_of_memory(found.value)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_other_errors_are_not_taken_for_it(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


# The update stays


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4)).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


def masked_loss(model: nn.Module, batch: Batch) -> LossSum:
    x, y, mask = batch
    return LossSum(((model(x) - y).square() * mask).sum(), int(mask.sum()))


def trained(rows: int, micro: int, accumulate: int, most: int) -> tuple[list[float], nn.Module]:
    """Two epochs over rows with 0 to 4 targets each, on a machine that holds `most` rows."""
    draw = torch.Generator().manual_seed(rows)
    x, y = (torch.randn(rows, n, generator=draw, dtype=torch.float64) for n in (3, 4))
    lengths = torch.randint(0, 5, (rows, 1), generator=draw)
    mask = (torch.arange(4) < lengths).double()
    feed = Feed(
        [x, y, mask], micro, accumulate, seed=7, count_targets=lambda batch: int(batch[2].sum())
    )
    model = Net()
    objective = SmallMemory(masked_loss, lambda _, found: found > most)
    policy = SplitOnOutOfMemory()
    inner = OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), lr=0.5))
    step = inner.handling_memory(policy)
    losses = [float(step(feed.next_step()).loss) for _ in range(2 * feed.steps_per_epoch)]
    assert policy.exhausted == ""
    return losses, model


@pytest.mark.parametrize("rows", [24, 35])
@pytest.mark.parametrize("accumulate", each(2, [1, 2, 3]))
@pytest.mark.parametrize("most", [5, 1])
def test_a_split_changes_no_update(most: int, accumulate: int, rows: int) -> None:
    whole, expected = trained(rows, 12 // accumulate, accumulate, most=12)
    losses, model = trained(rows, 12 // accumulate, accumulate, most)
    assert losses == pytest.approx(whole, rel=1e-12, abs=1e-12)
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert (ours - theirs).abs().max() <= 1e-12


# What a failed pass leaves behind


def tight(canary: Canary, fails: Callable[[int, int], bool], **how: object) -> SplitOnOutOfMemory:
    """Give the canary a machine with too little memory, and a policy that copes with it. Its steps
    are of two micro-batches of four rows, the third of an epoch of three and three; as there is a
    batch norm, two rows are the fewest."""
    inner = canary.job.step
    assert isinstance(inner, OptimizerStep)
    inner._objective = SmallMemory(inner._objective, fails, **how)
    policy = SplitOnOutOfMemory(tell=canary.observe, mixes_rows=True)
    canary.feed = Feed(data(), 4, 2, seed=11)
    canary.change(
        step=inner.handling_memory(policy),
        feed=canary.feed,
        state={**canary.job.state, "memory": policy},
        guard=MemoryGuard(canary.job.guard, policy),
        checkpoint_every=AlsoAfterSplit(canary.job.checkpoint_every, policy),
    )
    return policy


def ended(canary: Canary) -> dict[str, object]:
    return everything(canary, canary.fit())


@pytest.mark.parametrize("in_backward", [False, True])
@pytest.mark.parametrize("fails_at", [1, 2])
def test_the_step_is_made_again_from_where_it_began(
    fails_at: int, in_backward: bool, tmp_path: Path
) -> None:
    """Gradients, random numbers and running statistics: as if it had begun with two rows."""
    small = start(tmp_path / "small", MemoryCheckpoints())
    tight(small, lambda *_: False).restore(Snapshot(values={"most_rows": 2.0}))
    expected = ended(small)
    canary = start(tmp_path / "split", MemoryCheckpoints())
    tight(canary, lambda number, _: number == fails_at, in_backward=in_backward)
    assert differences(ended(canary), expected) == []
    assert canary.job.step._objective.passes > fails_at


def test_a_failed_pass_is_freed_before_the_next_one() -> None:
    """Its graph must not be kept alive by the error that is being handled."""
    import weakref

    model, alive = nn.Linear(3, 1), []
    graphs: list[weakref.ref[torch.Tensor]] = []

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        alive.append(sum(graph() is not None for graph in graphs))
        out = model(batch[0])
        graphs.append(weakref.ref(out))
        if len(batch[0]) > 1:
            raise RuntimeError(REAL)
        return LossSum(out.sum(), len(batch[0]))

    inner = OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), 0.1))
    step = inner.handling_memory(SplitOnOutOfMemory())
    step(Feed([torch.randn(4, 3)], 4).next_step())
    assert alive == [0] * 6


# Products with resume


def run(folder: Path, store: CheckpointStore, process: int = 0, occurs: bool = True) -> Canary:
    """Memory runs out from the fifth step on for micro-batches of four rows."""
    canary = start(folder, store, Setting(checkpoint_every=4, validate_every=11), process)
    tight(canary, lambda _, rows: occurs and rows > 3 and canary.feed.samples > 30)
    return canary


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return ended(run(tmp_path_factory.mktemp("unbroken"), MemoryCheckpoints()))


@pytest.mark.parametrize("step", each(3, range(STEPS + 1)))
def test_a_run_that_was_split_resumes_to_the_same_bits(
    step: int, unbroken: dict[str, object], tmp_path: Path
) -> None:
    first = run(tmp_path, Checkpoints(tmp_path / "ckpt", 2))

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == step:
            first.flag.raise_flag("SIGTERM")

    first.on_event.append(stop)
    if step == 0:
        first.flag.raise_flag("SIGTERM")
    first.fit()
    second = run(tmp_path, Checkpoints(tmp_path / "ckpt", 2), process=100)
    assert differences(ended(second), unbroken) == []


@pytest.mark.parametrize("killed", each(3, range(6, STEPS + 1)))
def test_a_kill_after_it_does_not_bring_large_micro_batches_back(
    killed: int, unbroken: dict[str, object], tmp_path: Path
) -> None:
    """Also where memory would suffice the second time: the step that was split is saved at once."""
    first = run(tmp_path, Checkpoints(tmp_path / "ckpt", 2))

    def die(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == killed:
            raise Killed

    first.on_event.append(die)
    with pytest.raises(Killed):
        first.fit()
    assert [e.progress.step for e in first.seen.events if isinstance(e, Saved)][:3] == [0, 4, 5]
    second = run(tmp_path, Checkpoints(tmp_path / "ckpt", 2), process=100, occurs=False)
    assert differences(ended(second), unbroken) == []


def test_the_split_is_told_once(tmp_path: Path) -> None:
    canary = run(tmp_path, MemoryCheckpoints())
    told: list[Event] = []
    canary.on_event.append(told.append)
    canary.fit()
    (noted,) = [event for event in told if isinstance(event, Noted)]
    assert noted.kind == "out_of_memory"
    assert "micro-batches of 4 rows: they have at most 2" in noted.message
    assert "batch norm sees fewer rows" in noted.message
    assert noted.numbers == {"samples": 38, "rows_before": 4, "rows": 2}


# Where there is no way out


@pytest.mark.parametrize("policy", ["split", "raise"])
def test_the_run_ends_with_the_last_good_weights(policy: str, tmp_path: Path) -> None:
    clean = start(tmp_path / "clean", MemoryCheckpoints(), Setting(steps=4))
    tight(clean, lambda *_: False)
    expected = ended(clean)
    canary = start(tmp_path / "run", Checkpoints(tmp_path / "ckpt", 2), Setting(checkpoint_every=9))
    memory = tight(canary, lambda *_: canary.feed.samples > 30)
    memory._splits = policy == "split"
    finished = canary.fit()
    assert (finished.kind, finished.progress.step) == ("halted", 4)
    rows = {"split": 2, "raise": 4}[policy]
    assert f"memory ran out in micro-batches of {rows} rows at the step of samples 30 to 37" in (
        finished.reason
    )
    assert "DefaultCPUAllocator: can't allocate memory" in finished.reason
    newest = Checkpoints(tmp_path / "ckpt", 2).newest_valid()
    assert isinstance(newest, Loaded)
    assert newest.step == 4
    for name, tensor in newest.parts["model"].tensors.items():
        assert (tensor.dtype, tensor.shape, tensor.numpy().tobytes()) == expected[f"model {name}"]


def test_memory_that_runs_out_in_the_update_is_not_split() -> None:
    """By then weights may have changed, so the step cannot be made again."""
    model = nn.Linear(3, 1)

    class Full(torch.optim.SGD):
        def step(self) -> None:
            raise RuntimeError(REAL)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        return LossSum(model(batch[0]).sum(), len(batch[0]))

    inner = OptimizerStep(model, objective, Full(model.parameters(), lr=0.1))
    step = inner.handling_memory(SplitOnOutOfMemory())
    with pytest.raises(RuntimeError) as raised:
        step(Feed([torch.randn(4, 3)], 4).next_step())
    assert not isinstance(raised.value, BackwardOutOfMemory)


def test_without_it_the_error_is_a_memory_error() -> None:
    model = nn.Linear(3, 1)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        raise RuntimeError(REAL)

    step = OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(MemoryError, match="can't allocate"):
        step(Feed([torch.randn(4, 3)], 4).next_step())


def test_batch_norm_looks_at_other_rows() -> None:
    assert rows_are_mixed(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    assert not rows_are_mixed(nn.Sequential(nn.LayerNorm(3), nn.InstanceNorm1d(3)))


def test_the_guard_inside_is_asked_otherwise() -> None:
    guard = MemoryGuard(HaltOnNonFinite(), SplitOnOutOfMemory())
    from trainwright.tracking.events import StepOutcome

    outcome = StepOutcome(math.nan, 0.1, 1.0, 0.0, 0.0, 0.0, 1, 1, 0)
    assert type(guard.judge(outcome)).__name__ == "Halt"
    assert type(guard.judge(outcome._replace(loss=1.0))).__name__ == "Keep"


BARE = {
    "a tensor": lambda x: x,
    "a vector": lambda x: x[:, 0],
    "a mapping": lambda x: {"input": x},
    "a tuple": lambda x: (x,),
}


@pytest.mark.parametrize("kind", BARE)
def test_rows_are_those_of_the_first_tensor_of_a_micro_batch_of_any_kind(kind: str) -> None:
    sizes: list[int] = []

    def objective(model: nn.Module, batch: Any) -> LossSum:
        (x,) = tensors_of(batch)
        sizes.append(len(x))
        if len(x) > 2:
            raise RuntimeError(REAL)
        return LossSum(model(x.view(len(x), -1)[:, :1]).sum(), len(x))

    model = nn.Linear(1, 1)
    inner = OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), lr=0.1))
    step = inner.handling_memory(SplitOnOutOfMemory())
    step(StepBatches([BARE[kind](torch.ones(4, 3))], 4, 4, 4, 0, 0.0))
    assert sizes[-2:] == [2, 2]


def test_a_rank_without_rows_says_too_that_its_memory_ran_out() -> None:
    model = nn.Linear(3, 1)

    def objective(model: nn.Module, batch: Batch) -> LossSum:
        raise RuntimeError(REAL)

    policy = SplitOnOutOfMemory()
    step = OptimizerStep(model, objective, torch.optim.SGD(model.parameters(), lr=0.1))
    step.handling_memory(policy)(StepBatches([(torch.ones(0, 3),)], 4, 4, 4, 0, 0.0))
    assert "memory ran out" in policy.exhausted
