"""The mean of the weights against torch's own, through drops, resumes and the command."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn  # noqa: E402

from command import project_in, train_one, with_layers  # noqa: E402
from objectives import squared_error  # noqa: E402
from observed import observed  # noqa: E402
from stopped_runs import Cut  # noqa: E402
from trainwright.checkpoint.states.average_state import EMAState  # noqa: E402
from trainwright.checkpoint.states.module_state import ModuleState  # noqa: E402
from trainwright.checkpoint.states.optimizer_state import OptimizerState  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.job import Every, Job  # noqa: E402
from trainwright.engine.loop import fit  # noqa: E402
from trainwright.engine.stopping.stop_rules import StepLimit  # noqa: E402
from trainwright.engine.update.average_update import AverageUpdate  # noqa: E402
from trainwright.engine.update.step import OptimizerStep, Step  # noqa: E402
from trainwright.optim.ema import EMA  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402

pytestmark = pytest.mark.torch

DECAY = 0.9


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)).double()


def feed() -> Feed:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(48, 4, generator=generator, dtype=torch.float64)
    return Feed([x, x.sum(1, keepdim=True).sin()], 8, seed=2)


def averaged(model: nn.Module) -> tuple[Step, EMA, torch.optim.Optimizer]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
    mean = EMA(model, DECAY)
    step = observed(OptimizerStep(model, squared_error, optimizer), AverageUpdate(mean))
    return step, mean, optimizer


def test_it_is_the_mean_that_torch_makes() -> None:
    model = network()
    reference = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(DECAY), use_buffers=True)
    reference.update_parameters(
        model
    )  # its first call copies: the mean starts at the first weights
    step, mean, _ = averaged(model)
    rows = feed()
    for _ in range(20):
        step(rows.next_step())
        reference.update_parameters(model)
    theirs = dict(reference.module.named_parameters())
    assert theirs
    for name, value in theirs.items():
        assert torch.allclose(mean.mean[name], value.detach(), rtol=0, atol=1e-14), name
    assert torch.allclose(
        mean.mean["1.running_mean"], reference.module[1].running_mean, rtol=0, atol=1e-14
    )


def test_inside_evaluated_the_model_is_the_mean_and_afterwards_itself() -> None:
    model = network()
    step, mean, _ = averaged(model)
    rows = feed()
    for _ in range(5):
        step(rows.next_step())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with mean.evaluated():
        for name, value in mean.mean.items():
            assert torch.equal(model.state_dict()[name], value)
        assert not torch.equal(model[0].weight, before["0.weight"])
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("on_device", [False, True])
def test_a_dropped_step_does_not_move_it(on_device: bool) -> None:
    model = network()
    step, mean, _ = averaged(model)
    work = feed().next_step()
    step(work)
    with torch.no_grad():
        model[0].weight.add_(1.0)
    kept = {name: value.clone() for name, value in mean.mean.items()}
    if on_device:
        mean.take(torch.tensor(1.0))
    else:
        (x, y), *_ = work.micro_batches
        poisoned = StepBatches([(x * math.nan, y)], len(y), len(y), len(y), 0, 0.0)
        assert float(step(poisoned).found_nonfinite) == 1.0
    for name, value in mean.mean.items():
        assert torch.equal(value, kept[name]), name
    moved = torch.tensor(0.0) if on_device else 0.0
    mean.take(moved)
    assert not torch.equal(mean.mean["0.weight"], kept["0.weight"])


def run(checkpoints: MemoryCheckpoints, cut: float) -> Mapping[str, Tensor]:
    model = network()
    step, mean, optimizer = averaged(model)
    state = {
        "model": ModuleState(model),
        "optimizer": OptimizerState(optimizer, model.named_parameters()),
        "mean": EMAState(mean),
    }
    fit(
        Job(
            model=model,
            feed=feed(),
            step=step,
            stop_rules=(StepLimit(15), Cut(cut)),
            state=state,
            checkpoints=checkpoints,
            checkpoint_every=Every(4),
        )
    )
    return mean.mean


@pytest.mark.parametrize("cut", [1, 4, 7, 14])
def test_cut_and_resumed_it_is_the_same_bits(cut: int) -> None:
    whole = run(MemoryCheckpoints(), math.inf)
    checkpoints = MemoryCheckpoints()
    run(checkpoints, cut)
    resumed = run(checkpoints, math.inf)
    assert whole
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 3\n  batch_size: 32\n  early_stopping: off\n"
    + "  average: {kind: ema, decay: 0.9}\n"
)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def test_the_command_keeps_the_mean(project: Path) -> None:
    ran = train_one()
    assert ran.code in (0, 3), ran.err
    newest = sorted(Path("runs/one/checkpoints").glob("step-*"))[-1]
    mean = load_file(newest / "mean.safetensors")
    trained = load_file(newest / "model.safetensors")
    bundle = load_file(Path("runs/one/bundle/network.safetensors"))
    assert mean
    for name, value in mean.items():
        assert torch.equal(bundle[name], value), name
    assert any(not torch.equal(trained[name], value) for name, value in mean.items())


def test_a_mean_of_a_mean_is_refused(project: Path) -> None:
    words = ("training.optimizer.name=schedule_free_adamw", "training.scheduler.name=constant")
    ran = train_one(*words)
    assert ran.code == 2
    assert "evaluates a mean of the weights already" in ran.err
