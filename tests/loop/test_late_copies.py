"""What is copied while the next step is under way is the state of the boundary, to the bit.

Here the thread that saves copies nothing: each copy is made at the last moment that the fence
allows. So whatever writes to a weight or a moment without waiting there tears every checkpoint.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import (  # noqa: E402
    Canary,
    Setting,
    data,
    everything,
    start,
    unbroken,
    wait_at,
)
from command import with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from faults.tiers import each  # noqa: E402
from objectives import squared_error  # noqa: E402
from saves import leave_copies_to_training  # noqa: E402
from trainwright.checkpoint.background_save import BackgroundCheckpoints  # noqa: E402
from trainwright.checkpoint.state import Snapshot, Stateful  # noqa: E402
from trainwright.checkpoint.states.average_state import EMAState, SWAState  # noqa: E402
from trainwright.checkpoint.states.copy_fence import Fence, TornSnapshot  # noqa: E402
from trainwright.checkpoint.states.eval_weights_state import evaluated_state  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, CheckpointStore  # noqa: E402
from trainwright.core.progress import StopFlag  # noqa: E402
from trainwright.data.loading.batch import Batch  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.bn_recalibration import BatchNormRecalibration  # noqa: E402
from trainwright.engine.job import Every  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.update.average_update import AverageUpdate  # noqa: E402
from trainwright.engine.update.optimizer_in_backward import InBackwardStep  # noqa: E402
from trainwright.engine.update.step import OptimizerStep, Step  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.optim.ema import EMA  # noqa: E402
from trainwright.optim.eval_weights import Evaluating  # noqa: E402
from trainwright.optim.state_offload import OffloadedOptimizer  # noqa: E402
from trainwright.optim.swa import SWA  # noqa: E402
from trainwright.optim.swa_schedule import SWASchedule  # noqa: E402
from trainwright.run.compose.compose_job import compose  # noqa: E402
from trainwright.run.prepare.prepare_run import make_ready  # noqa: E402
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.run_context import RunContext  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, Saved, Saving, StepOutcome  # noqa: E402
from trainwright.tracking.run_folder import RunFolder  # noqa: E402

pytestmark = pytest.mark.torch

ROWS, BATCH, EPOCHS = 80, 16, 3
TRAINING = f"training:\n  num_epochs: {EPOCHS}\n  batch_size: {BATCH}\n"
NETWORK = with_layers("[80, 8]\n  dropout: 0.2") + TRAINING
CHECKPOINTING = (
    "training.checkpointing.save_every_n_steps=1",
    "training.checkpointing.keep_every_n_steps=1",
)
CASES: Mapping[str, tuple[str, ...]] = {
    "adamw": (),
    "momentum": ("training.optimizer={name: sgd, learning_rate: 0.05}",),
    "adafactor": ("training.optimizer={name: adafactor, learning_rate: 0.01}",),
    "muon": ("training.optimizer={name: muon, learning_rate: 0.01}",),
    "lamb": ("training.optimizer={name: lamb, learning_rate: 0.01}",),
    "lion": ("training.optimizer={name: lion, learning_rate: 0.01}",),
    "schedule free": (
        "training.optimizer={name: schedule_free_adamw, learning_rate: 0.01}",
        "training.scheduler={name: constant}",
    ),
    "8 bits": ("training.optimizer={name: adamw_8bit, learning_rate: 0.01}",),
    "ema": ("training.average={kind: ema, decay: 0.8}",),
    "swa": ("training.average={kind: swa, start_ratio: 0.3, every_n_steps: 2}",),
    "in backward, ema": (
        "training.memory.update=in_backward",
        "training.gradient_clipping=off",
        "training.guard={non_finite: rollback, spike: ignore}",
        "training.average={kind: ema, decay: 0.8}",
    ),
    "accumulation, fp16": (
        "training.gradient_accumulation_steps=3",
        "training.mixed_precision=fp16",
    ),
    "freezing": (
        "training.freeze={columns: 1}",
        "training.optimizer={name: adamw, layer_decay: 0.8}",
    ),
    "skipped": ("training.guard.non_finite=skip",),
    "rolled back": (
        "training.guard.non_finite=rollback",
        "training.average={kind: ema, decay: 0.8}",
    ),
}
POISONED = ("skipped", "rolled back")
NEEDS = {
    "lamb": "pytorch_optimizer",
    "lion": "pytorch_optimizer",
    "schedule free": "pytorch_optimizer",
    "8 bits": "bitsandbytes",
}


@pytest.fixture
def at_the_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_copies_to_training(monkeypatch)


class Poisoned:
    """A step, one of whose batches is not finite."""

    def __init__(self, step: Step, at: float) -> None:
        self._step = step
        self._at = at

    def __call__(self, work: StepBatches) -> StepOutcome:
        if work.samples == self._at:
            ((numbers, *rest), *others) = work.micro_batches
            bad = numbers.clone()
            bad[0, 0] = math.nan
            work = work._replace(micro_batches=[(bad, *rest), *others])
        return self._step(work)


def run(folder: Path, name: str, case: str) -> RunFolder:
    contract = write_project(folder, NETWORK, ROWS)
    saving = f"training.checkpointing.asynchronous={'true' if name == 'late' else 'false'}"
    request = Request(contract, (*CASES[case], *CHECKPOINTING, saving), folder / "runs")
    ready = make_ready(request, StageTimes(), StreamScreen(io.StringIO()))
    where = RunFolder.create(folder / "runs", name)
    context = RunContext(where, (), StreamScreen(io.StringIO()), StopFlag())
    job = compose(ready.plan.contract.model, ready.plan, ready.prepared, context).job
    at = ready.plan.estimate.train_rows + 2 * BATCH if case in POISONED else math.inf
    ended = fit(replace(job, step=Poisoned(job.step, at)))
    assert ended.kind == "finished"
    assert (ended.progress.attempted > ended.progress.step) == (case in POISONED)
    return where


def written(run: RunFolder) -> dict[str, object]:
    """The bytes of each file of each checkpoint, but for the manifest, which has a number of the
    run in it, and the clock."""
    found: dict[str, object] = {}
    for file in sorted(run.checkpoints.glob("step-*/*")):
        key = f"{file.parent.name}/{file.name}"
        if file.suffix == ".safetensors":
            found[key] = file.read_bytes()
        elif file.name != "manifest.json":
            values = json.loads(file.read_bytes())
            del values["clock"]
            found[key] = values
    return found


@pytest.mark.parametrize("case", each(2, list(CASES)))
def test_each_checkpoint_is_the_one_that_is_written_in_turn(
    case: str, tmp_path: Path, at_the_last_moment: None
) -> None:
    if case in NEEDS:
        pytest.importorskip(NEEDS[case])
    expected = written(run(tmp_path, "in-turn", case))
    assert len({key.partition("/")[0] for key in expected}) >= 2 * EPOCHS
    assert differences(expected, written(run(tmp_path, "late", case))) == []


Change = Callable[[Canary], Mapping[str, object]]


def offloaded(canary: Canary) -> Mapping[str, object]:
    optimizer = OffloadedOptimizer(canary.optimizer, 100)
    named = canary.model.named_parameters()
    state = {**canary.job.state, "optimizer": OptimizerState(optimizer, named)}
    return {"state": state, "step": OptimizerStep(canary.model, column_error, optimizer)}


def column_error(model: torch.nn.Module, batch: Batch) -> LossSum:
    """The rows of a canary have one target each."""
    x, y = batch
    return squared_error(model, (x, y[:, None]))


def with_ema(canary: Canary) -> Mapping[str, object]:
    mean = EMA(canary.model, 0.5)
    return averaged(canary, mean, EMAState(mean))


def with_swa(canary: Canary) -> Mapping[str, object]:
    """Its mean holds the statistics of norms, which a look at it computes anew."""
    statistics = BatchNormRecalibration(canary.model, column_error, lambda: [data()])
    mean = SWA(canary.model, SWASchedule(2, (3, 5, 8)), statistics)
    change = averaged(canary, mean, SWAState(mean))
    return {**change, "knobs": (*canary.job.knobs, mean)}


def averaged(canary: Canary, mean: EMA | SWA, mean_state: Stateful) -> Mapping[str, object]:
    model = canary.job.state["model"]
    assert isinstance(model, ModuleState)
    state = {**canary.job.state, **evaluated_state(mean, model), "mean": mean_state}
    return {
        "state": state,
        "outcome_observers": (AverageUpdate(mean),),
        "validate": Evaluating(canary.job.validate, mean),
    }


@pytest.mark.parametrize("change", [offloaded, with_ema, with_swa])
@pytest.mark.parametrize("steps", [7, 10])
def test_with_batch_norm_and_any_ending(
    change: Change, steps: int, tmp_path: Path, at_the_last_moment: None
) -> None:
    """At step 7 a validation comes at the end, right behind a save: it swaps the weights."""
    setting = Setting(checkpoint_every=1, validate_every=5, steps=steps)
    found = []
    for name in ("in-turn", "late"):
        fence = Fence()
        store: CheckpointStore = Checkpoints(tmp_path / name, 1, keep_every_n_steps=1)
        if name == "late":
            store = BackgroundCheckpoints(store, fence)
        canary = start(tmp_path / f"run-{name}", store, setting)
        if change is not offloaded:
            wait_at(fence, canary)
        canary.change(**change(canary))
        if change is offloaded:
            wait_at(fence, canary)
        canary.fit()
        files = (tmp_path / name).glob("step-*/*.safetensors")
        found.append({f"{file.parent.name}/{file.name}": file.read_bytes() for file in files})
    assert len(found[0]) >= 2 * steps
    assert differences(*found) == []


@pytest.mark.parametrize("change", [with_ema, with_swa])
def test_a_mean_is_saved_as_the_model_that_is_evaluated(change: Change, tmp_path: Path) -> None:
    """Where it lies ready it is not swapped in to be saved; where norms need statistics, it is."""
    store = MemoryCheckpoints()
    canary = start(tmp_path, store, SETTING)
    canary.change(**change(canary))
    evaluating = canary.job.validate
    assert isinstance(evaluating, Evaluating)
    mean, model = evaluating._weights, canary.job.state["model"]
    expected: list[Snapshot] = []
    ready: list[bool] = []

    def look(event: Event) -> None:
        if isinstance(event, Saving):
            ready.append(mean.ready() != "computed")
        if isinstance(event, Saved):
            with mean.evaluated():
                expected.append(model.snapshot())

    canary.on_event.append(look)
    canary.fit()
    assert len(expected) == len(store.kept) > 8
    assert set(ready) == ({True} if change is with_ema else {True, False})
    for one, loaded in zip(expected, store.kept, strict=True):
        found = loaded.parts["evaluated"]
        assert found.packed_values == one.packed_values
        assert differences(bits(found), bits(one)) == []


def bits(snapshot: Snapshot) -> dict[str, object]:
    return {name: tensor.numpy().tobytes() for name, tensor in snapshot.tensors.items()}


def fenced(folder: Path, setting: Setting, fence: Fence) -> Canary:
    store = BackgroundCheckpoints(Checkpoints(folder / "ckpt", 1, keep_every_n_steps=1), fence)
    canary = start(folder, store, setting)
    wait_at(fence, canary)
    return canary


SETTING = Setting(checkpoint_every=1, validate_every=5)


def test_the_wait_is_part_of_the_stall(tmp_path: Path, at_the_last_moment: None) -> None:
    """And changes no bit of the run."""
    fence = Fence()
    canary = fenced(tmp_path, SETTING, fence)
    waits: list[float] = []

    def wait() -> None:
        begun = bool(fence._begun)
        fence.wait()
        if begun:
            waits.append(fence.waited_seconds)

    canary.job.step.waiting_for(wait)  # type: ignore[attr-defined]
    ended = canary.fit()
    assert differences(everything(canary, ended), unbroken(SETTING)) == []
    stalls = [event.stall_seconds for event in canary.seen.events if isinstance(event, Saved)]
    assert len(waits) > 8
    # The first save and those that a new save waited for end without a wait at the fence.
    assert sum(stalls) > sum(waits) > 0


def test_a_step_that_does_not_wait_is_found(tmp_path: Path, at_the_last_moment: None) -> None:
    canary = start(
        tmp_path, BackgroundCheckpoints(Checkpoints(tmp_path / "ckpt", 1), Fence()), SETTING
    )
    canary.change(checkpoint_every=Every(3))
    with pytest.raises(TornSnapshot, match="written to while it was copied"):
        canary.fit()
    kept = sorted(path.name for path in (tmp_path / "ckpt").glob("step-*"))
    assert kept == ["step-0000000000"], "that of step 3 was torn by step 4"


def test_the_step_that_updates_in_its_backward_pass_waits_before_it() -> None:
    """Its first write comes long before it is done."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1, fused=True)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    seen: list[bool] = []

    def wait() -> None:
        pairs = zip(before, model.parameters(), strict=True)
        seen.append(all(torch.equal(one, now) for one, now in pairs))

    step = InBackwardStep(model, squared_error, optimizer).waiting_for(wait)
    x = torch.randn(8, 3)
    step(Feed([x, x.sum(dim=1, keepdim=True)], 4, 1, seed=5).next_step())
    assert seen == [True]
    assert not torch.equal(before[0], next(model.parameters()))
