"""Averages, growing steps and the noise scale on a GPU: nothing waits, and numbers are a CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from objectives import squared_error  # noqa: E402
from observed import observed  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Feed  # noqa: E402
from trainwright.data.sampling.step_ramps import Stages  # noqa: E402
from trainwright.engine.bn_recalibration import BatchNormRecalibration  # noqa: E402
from trainwright.engine.signals.noise_scale import NoiseScale  # noqa: E402
from trainwright.engine.update.average_update import AverageUpdate  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.optim.swa import SWA  # noqa: E402
from trainwright.optim.swa_schedule import SWASchedule  # noqa: E402

pytestmark = pytest.mark.gpu

RAMP = Stages((0, 128, 256), (32, 64, 96))
STEPS, TAKING = 40, SWASchedule(10, tuple(range(15, 41, 5)))


@contextmanager
def never_waiting() -> Iterator[None]:
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def trained(device: torch.device) -> tuple[NoiseScale, SWA, nn.Module]:
    torch.manual_seed(0)
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(512, 8, generator=draw)
    rows: tuple[Tensor, ...] = (x.to(device), x.sin().sum(1, keepdim=True).to(device))
    model = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Tanh(), nn.Linear(32, 1))
    model.to(device)
    feed = Feed(rows, 32, seed=3, ramp=RAMP)
    adamw = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
    noise = NoiseScale(list(model.parameters()), every=2)
    statistics = BatchNormRecalibration(model, squared_error, lambda: feed.from_start(256))
    mean = SWA(model, TAKING, statistics)
    inner = OptimizerStep(model, noise.objective(squared_error), adamw)
    step = observed(inner, noise, AverageUpdate(mean))
    for number in range(STEPS):
        work = feed.next_step()
        mean(Progress(step=number))
        if device.type == "cuda" and number > 3:
            with never_waiting():
                step(work)
        else:
            step(work)
    return noise, mean, model


def test_it_waits_for_nothing_and_computes_what_a_cpu_does() -> None:
    noise, mean, model = trained(torch.device("cuda"))
    noise_there, mean_there, model_there = trained(torch.device("cpu"))
    assert mean.count == mean_there.count == len(TAKING.steps)
    assert float(noise.rows) == pytest.approx(float(noise_there.rows), rel=0.05)
    with mean.evaluated(), mean_there.evaluated():
        for name, value in model_there.state_dict().items():
            assert torch.allclose(model.state_dict()[name].cpu(), value, atol=2e-3), name
