"""Operations are counted as torch counts them, and counting changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from canary import everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import StepBatches  # noqa: E402
from trainwright.engine.signals.flops import (  # noqa: E402
    Utilisation,
    count_flops,
    measure_peak,
    vendor_peak,
)
from trainwright.engine.signals.network_inspection import StepProbes  # noqa: E402
from trainwright.engine.signals.telemetry import Window, Windows  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import TokenShape  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Noted  # noqa: E402

pytestmark = pytest.mark.torch


def frozen_first() -> nn.Module:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    model[0].requires_grad_(False)
    return model


MODELS: list[tuple[Callable[[], nn.Module], tuple[int, ...]]] = [
    (lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), (5, 8)),
    (frozen_first, (5, 8)),
    (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Conv2d(8, 4, 3, stride=2, bias=False),
            nn.Flatten(),
            nn.Linear(36, 5),
        ),
        (4, 3, 9, 9),
    ),
    (lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16)),
]


@pytest.mark.parametrize(("build", "shape"), MODELS, ids=["mlp", "frozen", "conv", "transformer"])
def test_operations_are_those_that_torch_counts(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    model, inputs = build(), torch.randn(shape)
    with FlopCounterMode(display=False) as counter:
        model(inputs).sum().backward()
    assert count_flops(model, (inputs,), {}) == counter.get_total_flops()


def test_a_gpt_takes_six_operations_a_weight_and_its_attention() -> None:
    """6 N + 12 L h s a token (Chowdhery et al. 2022, appendix B), on a CPU too, whose fused
    attention torch's own counter does not see. A place is looked up and not multiplied."""
    layers, width, length, rows = 3, 32, 16, 5
    section = Gpt(kind="gpt", layers=layers, heads=4, width=width, context=length)
    model = GptNetwork(section, TokenShape(11))
    named = dict(model.named_parameters())
    weights = sum(p.numel() for name, p in named.items() if p.ndim == 2 and "places" not in name)
    tokens = torch.zeros(rows, length, dtype=torch.long)
    a_token = 6 * weights + 12 * layers * width * length
    assert count_flops(model, (tokens,), {}) == a_token * rows * length


def test_counting_changes_no_weight_no_gradient_no_statistic_and_no_random_number() -> None:
    class Strange(nn.Module):
        """Changes its input, counts its calls, draws random numbers."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.body(x.add_(torch.rand(1)))

    model, inputs = Strange(), torch.randn(6, 4)
    seen: list[int] = []
    model.register_forward_hook(lambda *_: seen.append(1))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given, numbers = inputs.clone(), torch.get_rng_state()
    assert count_flops(model, (inputs,), {}) == 6 * 16 * 6 - 2 * 16 * 6
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert torch.equal(inputs, given)
    assert torch.equal(torch.get_rng_state(), numbers)
    assert (model.calls, seen) == (0, [])
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_run_with_it_has_the_same_bits(tmp_path: Path) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    whole = everything(plain, plain.fit())
    canary = start(tmp_path / "measured", MemoryCheckpoints())
    told: list[Noted] = []
    utilisation = Utilisation(canary.model, "fp32", told.append)
    seen = Keep(utilisation)
    windows = Windows(3, [seen])
    canary.change(
        probes=StepProbes(windows, [utilisation]),
        observers=(*canary.job.observers, windows),
    )
    assert differences(whole, everything(canary, canary.fit())) == []
    assert told == []
    a_row = 2 * (3 * (8 * 1) + 2 * (4 * 8))  # the inputs need no gradient
    for window, numbers in seen.found:
        assert numbers["flops_per_second"] == pytest.approx(a_row * window.rows / window.seconds)
        share = numbers["flops_per_second"] / numbers["peak_flops_measured"]
        assert numbers["mfu_measured"] == pytest.approx(share)
        assert "mfu_vendor" not in numbers


class Keep:
    def __init__(self, gauge: Utilisation) -> None:
        self.gauge = gauge
        self.found: list[tuple[Window, dict[str, float]]] = []

    def read(self, window: Window) -> dict[str, float]:
        numbers = dict(self.gauge.read(window))
        self.found.append((window, numbers))
        return numbers


WINDOW = Window(Progress(1, 1, 6, 0), 1.0, 6, 6, ())


def test_a_model_that_cannot_be_copied_is_told_once_and_goes_on() -> None:
    class Copied(nn.Linear):
        def __deepcopy__(self, memo: object) -> nn.Module:
            raise ValueError("cannot be copied\nat all")

    model, told = Copied(4, 1), []
    utilisation = Utilisation(model, "fp32", told.append)
    batches = [(torch.randn(3, 4), torch.randn(3)) for _ in range(2)]
    for _ in range(2):
        with utilisation.measuring(StepBatches(batches, 6, 6, 6, 0, 0.0)):
            for inputs, _ in batches:
                model(inputs)
        assert utilisation.read(WINDOW) == {}
    assert [note.kind for note in told] == ["flops_unknown"]
    assert told[0].message.endswith("(ValueError: cannot be copied)")


def test_the_hook_is_gone_when_the_step_fails() -> None:
    model = nn.Linear(4, 1)
    utilisation = Utilisation(model, "fp32", print)
    work = StepBatches([(torch.randn(3, 4), torch.randn(3))], 3, 3, 3, 0, 0.0)
    with pytest.raises(RuntimeError), utilisation.measuring(work):
        raise RuntimeError
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("choice", ["fp32", "bf16"])
def test_a_peak_is_a_rate(choice: str) -> None:
    peak = measure_peak(torch.device("cpu"), choice)
    assert math.isfinite(peak)
    assert peak > 1e6


@pytest.mark.parametrize(
    ("name", "choice", "peak"),
    [
        ("NVIDIA H200", "bf16", 989.4e12),
        ("NVIDIA H100 80GB HBM3", "tf32", 494.7e12),
        ("NVIDIA H100 PCIe", "bf16", 756e12),
        ("NVIDIA A100-SXM4-80GB", "bf16", 312e12),
        ("Tesla T4", "fp16", 65e12),
        ("Tesla T4", "bf16", "unknown"),
        ("NVIDIA L40S", "bf16", "unknown"),
        ("A GPU of tomorrow", "bf16", "unknown"),
    ],
)
def test_the_makers_peak_is_known_by_name_and_format(name: str, choice: str, peak: object) -> None:
    assert vendor_peak(name, choice) == peak
