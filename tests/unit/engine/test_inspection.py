"""What is seen inside a network is what is there, and looking changes nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from canary import everything, start  # noqa: E402
from comparing import differences  # noqa: E402
from trainwright.contract.sections.model.gpt import Gpt  # noqa: E402
from trainwright.contract.sections.model.resnet import ResNet  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.data.loading.feed import Feed, StepBatches  # noqa: E402
from trainwright.engine.signals.attention_entropy import AttentionEntropy  # noqa: E402
from trainwright.engine.signals.network_inspection import (  # noqa: E402
    Activations,
    GradientSizes,
    SilentUnits,
    StepProbes,
)
from trainwright.engine.signals.telemetry import Window, Windows  # noqa: E402
from trainwright.engine.update.step import OptimizerStep  # noqa: E402
from trainwright.model.gpt.gpt_network import GptNetwork  # noqa: E402
from trainwright.model.input_shape import ImageShape, TokenShape  # noqa: E402
from trainwright.model.resnet.resnet_network import build_resnet  # noqa: E402
from trainwright.objective.losses import LossSum  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402

pytestmark = pytest.mark.torch

WORK = StepBatches([], 0, 0, 0, 0, 0.0)
WINDOW = Window(Progress(), 1.0, 0, 0, ())


def inspected(probe: object, run: Callable[[], object]) -> Mapping[str, float]:
    with probe.measuring(WORK):
        run()
    found = {name: float(number) for name, number in probe.read(WINDOW).items()}
    assert probe.read(WINDOW) == {}, "the numbers of a step are given once"
    return found


def test_activations_are_those_of_all_micro_batches() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2))
    batches = [torch.randn(4, 3), torch.randn(4, 3)]
    found = inspected(Activations(model), lambda: list(map(model, batches)))
    linear = model[0](torch.cat(batches)).detach()
    for name, output in (("0", linear), ("1", linear.relu())):
        assert found[f"activation_mean/{name}"] == pytest.approx(float(output.mean()), rel=1e-5)
        deviation = float(output.std(correction=0))
        assert found[f"activation_deviation/{name}"] == pytest.approx(deviation, rel=1e-5)
        zeros = float((output == 0).float().mean())
        assert found[f"activation_zeros/{name}"] == pytest.approx(zeros)
        assert found[f"activation_nonfinite/{name}"] == 0.0
    assert {name.partition("/")[2] for name in found} == {"0", "1", "3"}


def test_a_number_that_is_not_finite_is_seen_where_it_begins() -> None:
    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sqrt()

    model = nn.Sequential(nn.Identity(), nn.Hardtanh(-1, 1), Root(), nn.Hardtanh(-1, 1))
    found = inspected(Activations(model), lambda: model(torch.tensor([-4.0, 1.0, 4.0, 9.0])))
    assert [found[f"activation_nonfinite/{name}"] for name in "123"] == [0.0, 0.25, 0.25]
    assert math.isnan(found["activation_mean/2"])


def test_units_that_no_row_wakes_are_counted() -> None:
    linear = nn.Linear(1, 4, bias=True)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0], [0.0]]))
        linear.bias.copy_(torch.tensor([0.0, 0.0, -5.0, 1.0]))
    rows = [torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0]])]
    for active, share in ((nn.ReLU(), 0.5), (nn.GELU(), 0.25)):
        model = nn.Sequential(linear, active)
        found = inspected(SilentUnits(model), lambda model=model: list(map(model, rows)))
        assert found == {"silent_share/1": share}
    image = torch.zeros(2, 3, 4, 4)
    image[1, 2, 3, 3] = 1.0
    model = nn.Sequential(nn.ReLU())
    silent = inspected(SilentUnits(model), lambda: model(image))
    assert silent == {"silent_share/0": pytest.approx(2 / 3)}


def test_gradients_are_counted_by_their_power_of_ten() -> None:
    model = nn.Linear(4, 2, bias=False)
    sizes = [0.0, 1e-20, 1e-12, 3e-5, -2e-5, 0.5, -1e6, math.inf]
    model.weight.grad = torch.tensor(sizes).view(2, 4)
    found = inspected(GradientSizes(model), lambda: None)
    shares = {name.partition("/")[2]: share for name, share in found.items() if share}
    assert shares == {"zero": 1 / 8, "-12": 2 / 8, "-5": 2 / 8, "-1": 1 / 8, "3": 2 / 8}
    assert sum(found.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_attention_is_that_which_the_network_pays(positions: str) -> None:
    """Seen from outside: the values are made the identity of places, so that what attention gives
    is its probabilities."""
    length, heads = 6, 2
    section = Gpt(
        kind="gpt", layers=1, heads=heads, width=2 * 8, context=length, positions=positions
    )
    model = GptNetwork(section, TokenShape(11))
    with torch.no_grad():
        model.blocks[0].queries_keys_values.weight.mul_(40)
    tokens = torch.randint(0, 11, (3, length))
    seen: list[Tensor] = []
    plain = functional.scaled_dot_product_attention

    def spy(queries: Tensor, keys: Tensor, values: Tensor, **named: object) -> Tensor:
        places = torch.eye(length).expand(*queries.shape[:2], length, length)
        seen.append(plain(queries, keys, places, is_causal=True).detach())
        return plain(queries, keys, values, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functional, "scaled_dot_product_attention", spy)
        found = inspected(AttentionEntropy(model), lambda: model(tokens))
    (chances,) = seen
    entropy = -(chances * chances.clamp_min(1e-30).log()).sum(dim=3)[:, :, 1:]
    heads_mean = (entropy / torch.arange(2, length + 1).log()).mean(dim=(0, 2))
    assert found["attention_entropy/blocks.0"] == pytest.approx(float(heads_mean.mean()), rel=1e-4)
    least = float(heads_mean.min())
    assert found["attention_entropy_least/blocks.0"] == pytest.approx(least, rel=1e-4)
    assert 0.05 < found["attention_entropy/blocks.0"] < 0.999
    assert found["attention_logit/blocks.0"] > 0


def test_looking_leaves_every_bit_of_a_run(tmp_path: Path) -> None:
    plain = start(tmp_path / "plain", MemoryCheckpoints())
    whole = everything(plain, plain.fit())
    canary = start(tmp_path / "seen", MemoryCheckpoints())
    probes = [make(canary.model) for make in (Activations, SilentUnits, GradientSizes)]
    windows = Windows(2, probes)
    canary.change(
        probes=StepProbes(windows, [], probes, every=2),
        observers=(*canary.job.observers, windows),
    )
    assert differences(whole, everything(canary, canary.fit())) == []
    assert not any(module._forward_hooks for module in canary.model.modules())


MODELS: list[tuple[Callable[[], nn.Module], tuple[Tensor, Tensor]]] = [
    (
        lambda: GptNetwork(
            Gpt(kind="gpt", layers=2, heads=2, width=16, context=8, dropout=0.2), TokenShape(11)
        ),
        (torch.randint(0, 11, (6, 8)), torch.randint(0, 11, (6, 8))),
    ),
    (
        lambda: build_resnet(
            ResNet(kind="resnet", width=4, blocks=(1, 1), dropout=0.2),
            ImageShape((1, 8, 8), (128.0,), (70.0,), 3),
        ),
        (255 * torch.rand(6, 1, 8, 8), torch.randint(0, 3, (6,))),
    ),
]


@pytest.mark.parametrize("which", [0, 1], ids=["gpt", "resnet"])
def test_looking_leaves_every_bit_of_a_gpt_and_of_a_resnet(which: int) -> None:
    build, tensors = MODELS[which]
    weights = []
    for looks in (False, True):
        torch.manual_seed(3)
        model = build()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, fused=True)
        probes: list[object] = []
        if looks:
            probes = [make(model) for make in (Activations, SilentUnits, GradientSizes)]
            probes += [AttentionEntropy(model)] if isinstance(model, GptNetwork) else []
        feed = Feed(tensors, 2, 2, count_targets=lambda batch: batch[1].numel())
        step, names = OptimizerStep(model, loss, optimizer), set()
        for _ in range(4):
            work = feed.next_step()
            with ExitStack() as stack:
                for probe in probes:
                    stack.enter_context(probe.measuring(work))
                step(work)
            names |= {name.partition("/")[0] for probe in probes for name in probe.read(WINDOW)}
        weights.append([tensor.clone() for tensor in model.state_dict().values()])
        assert looks == ({"activation_mean", "silent_share", "gradient_sizes"} <= names)
        assert ("attention_entropy" in names) == (looks and which == 0)
    assert all(map(torch.equal, *weights))


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> LossSum:
    outputs, targets = model(batch[0]), batch[1]
    total = functional.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="sum")
    return LossSum(total, targets.numel())


@pytest.mark.parametrize("make", [Activations, SilentUnits])
def test_hooks_are_gone_when_a_step_fails(make: Callable[[nn.Module], object]) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(RuntimeError), make(model).measuring(WORK):
        raise RuntimeError
    assert not any(module._forward_hooks for module in model.modules())


def test_only_every_nth_window_is_inspected(tmp_path: Path) -> None:
    canary = start(tmp_path, MemoryCheckpoints())
    probe = SilentUnits(canary.model)
    seen: list[tuple[int, bool]] = []

    class Noting:
        def read(self, window: Window) -> Mapping[str, float]:
            seen.append((window.progress.step, bool(probe.read(window))))
            return {}

    windows = Windows(2, [Noting()])
    canary.change(
        probes=StepProbes(windows, [], [probe], every=3),
        observers=(*canary.job.observers, windows),
    )
    canary.fit()
    assert seen == [(step, step % 6 == 0) for step in range(2, 13, 2)]
