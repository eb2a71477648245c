"""Units without gradient are counted when they have had none for three measured steps."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from canary import everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.signals.dead_units import DeadUnits  # noqa: E402
from trainwright.engine.signals.network_inspection import StepProbes  # noqa: E402
from trainwright.engine.signals.telemetry import Window, Windows  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402

pytestmark = pytest.mark.torch

WORK = StepBatches([], 0, 0, 0, 0, 0.0)
WINDOW = Window(Progress(), 1.0, 0, 0, ())


def network() -> nn.Module:
    """Of four hidden units behind a ReLU one never fires."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with torch.no_grad():
        model[0].bias[1] = -1000.0
    return model


def step(model: nn.Module, units: DeadUnits, inputs: torch.Tensor) -> dict[str, float]:
    with units.measuring(WORK):
        model.zero_grad()
        model(inputs).square().sum().backward()
    return {name: float(share) for name, share in units.read(WINDOW).items()}


def test_a_unit_is_dead_after_three_measured_steps_and_lives_again_at_once() -> None:
    model = network()
    units, inputs = DeadUnits(model), torch.randn(64, 3)
    found = [step(model, units, inputs)["dead_share/0"] for _ in range(4)]
    assert found == [0.0, 0.0, 0.25, 0.25]
    with torch.no_grad():
        model[0].bias[1] = 0.0
    assert step(model, units, inputs) == {"dead_share/0": 0.0, "dead_share/2": 0.0}


def test_a_layer_without_living_inputs_is_not_dead_itself() -> None:
    """Behind a ReLU that is dead as a whole the weights have no gradient, but the bias has one."""
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU()),
        nn.Linear(4, 2),
    )
    with torch.no_grad():
        model[2].bias.fill_(-1000.0)
        model[4].bias.fill_(1.0)
    units = DeadUnits(model)
    for _ in range(3):
        found = step(model, units, torch.randn(64, 3))
    assert (found["dead_share/2"], found["dead_share/4"], found["dead_share/6"]) == (1.0, 0.0, 0.0)


def test_the_counts_survive_a_resume() -> None:
    model, inputs = network(), torch.randn(64, 3)
    first, second = DeadUnits(model), DeadUnits(model)
    step(model, first, inputs)
    step(model, first, inputs)
    second.restore(first.snapshot())
    assert step(model, second, inputs)["dead_share/0"] == 0.25


def test_channels_of_convolutions_are_units_and_frozen_layers_count_nothing() -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3))
    with torch.no_grad():
        model[0].bias[:3] = -1000.0
    units = DeadUnits(model)
    for _ in range(3):
        found = step(model, units, torch.randn(2, 1, 8, 8))
    assert found == {"dead_share/0": 0.75, "dead_share/2": 0.0}
    model[0].requires_grad_(False)
    frozen = DeadUnits(model)
    for _ in range(3):
        found = step(model, frozen, torch.randn(2, 1, 8, 8))
    assert found["dead_share/0"] == 0.0


def test_a_run_with_it_has_the_same_bits(tmp_path: object) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    whole = everything(plain, plain.fit())
    canary = start(tmp_path / "watched", MemoryCheckpoints())
    units = DeadUnits(canary.model)
    windows = Windows(2, [units])
    canary.change(
        probes=StepProbes(windows, [units]),
        observers=(*canary.job.observers, windows),
    )
    assert differences(whole, everything(canary, canary.fit())) == []
