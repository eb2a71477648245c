"""Each optimizer against the formula of its paper, step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from trainwright.contract.sections.training import optimizer as contract  # noqa: E402
from trainwright.optim.build_optimizer import build_optimizer, build_weights  # noqa: E402

LR = 0.03
STEPS = 25

Floats = np.ndarray
Rule = Callable[[Floats, Floats, int], Floats]


def needs(section: contract.AnyOptimizer) -> None:
    match section:
        case contract.Lamb() | contract.Lion() | contract.ScheduleFreeAdamW():
            pytest.importorskip("pytorch_optimizer")
        case contract.AdamW8bit():
            pytest.importorskip("bitsandbytes")
        case _:
            pass


def gradient(w: Floats) -> Floats:
    """Of Rosenbrock-like valleys: a fixed problem with curvature of every size."""
    scale = np.logspace(-2, 1, w.size).reshape(w.shape)
    return scale * w + 0.3 * np.sin(3 * w)


class Matrix(nn.Module):
    """One weight matrix, decayed as that of any linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3, bias=False).double()
        torch.manual_seed(3)
        nn.init.normal_(self.layer.weight)


def trace(section: contract.AnyOptimizer, steps: int = STEPS) -> Iterator[Floats]:
    """The weights after each step of ours."""
    needs(section)
    model = Matrix()
    optimizer = build_optimizer(section, model, rows_per_step=1)
    weight = model.layer.weight
    yield weight.detach().numpy().copy()
    for _ in range(steps):
        weight.grad = torch.tensor(gradient(weight.detach().numpy()))
        optimizer.step()
        yield weight.detach().numpy().copy()


def sgd(section: contract.Sgd) -> Rule:
    m = 0.0

    def step(w: Floats, g: Floats, t: int) -> Floats:
        nonlocal m
        g = g + section.weight_decay * w
        m = section.momentum * m + g
        return w - LR * (g + section.momentum * m if section.nesterov else m)

    return step


def adam(section: contract.Adam | contract.AdamW) -> Rule:
    (b1, b2), d = section.betas, section.weight_decay
    m = v = 0.0

    def step(w: Floats, g: Floats, t: int) -> Floats:
        nonlocal m, v
        if isinstance(section, contract.AdamW):
            w = w - LR * d * w
        else:
            g = g + d * w
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        return w - LR * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + section.eps)

    return step


def adafactor(section: contract.Adafactor) -> Rule:
    row = column = 0.0

    def rms(x: Floats) -> float:
        return float(np.sqrt(np.mean(x * x)))

    def step(w: Floats, g: Floats, t: int) -> Floats:
        nonlocal row, column
        b2 = 1 - t**section.beta2_decay
        row = b2 * row + (1 - b2) * np.mean(g * g, axis=1, keepdims=True)
        column = b2 * column + (1 - b2) * np.mean(g * g, axis=0, keepdims=True)
        u = g / np.sqrt(row * column / np.mean(row))
        size = max(1e-3, rms(w)) * min(LR, 1 / math.sqrt(t))
        return (1 - LR * section.weight_decay) * w - size * u / max(1, rms(u) / section.clip)

    return step


def lamb(section: contract.Lamb) -> Rule:
    (b1, b2), m, v = section.betas, 0.0, 0.0

    def step(w: Floats, g: Floats, t: int) -> Floats:
        nonlocal m, v
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        u = m / (np.sqrt(v) + section.eps) + section.weight_decay * w
        trust = min(10.0, float(np.linalg.norm(w))) / (float(np.linalg.norm(u)) + section.eps)
        return w - LR * trust * u

    return step


def lion(section: contract.Lion) -> Rule:
    (b1, b2), m = section.betas, 0.0

    def step(w: Floats, g: Floats, t: int) -> Floats:
        nonlocal m
        u = np.sign(b1 * m + (1 - b1) * g)
        m = b2 * m + (1 - b2) * g
        return w - LR * (u + section.weight_decay * w)

    return step


RULES: list[tuple[contract.AnyOptimizer, Callable[..., Rule]]] = [
    (contract.Sgd(name="sgd", learning_rate=LR, momentum=0.0), sgd),
    (contract.Sgd(name="sgd", learning_rate=LR, weight_decay=0.1), sgd),
    (contract.Sgd(name="sgd", learning_rate=LR, nesterov=True), sgd),
    (contract.Adam(name="adam", learning_rate=LR, weight_decay=0.1), adam),
    (contract.AdamW(learning_rate=LR, weight_decay=0.1, betas=(0.8, 0.95)), adam),
    (contract.Adafactor(name="adafactor", learning_rate=LR, weight_decay=0.1), adafactor),
    (contract.Lamb(name="lamb", learning_rate=LR, weight_decay=0.1), lamb),
    (contract.Lion(name="lion", learning_rate=LR), lion),
]


@pytest.mark.parametrize(("section", "rule"), RULES, ids=lambda value: getattr(value, "name", ""))
def test_each_step_is_the_formula_of_the_paper(
    section: contract.AnyOptimizer, rule: Callable[..., Rule]
) -> None:
    ours = trace(section)
    step, w = rule(section), next(ours)
    for t, found in enumerate(ours, start=1):
        w = step(w, gradient(w), t)
        np.testing.assert_allclose(found, w, rtol=1e-12, atol=1e-13)


def test_schedule_free_adamw_is_algorithm_1_and_evaluates_the_mean() -> None:
    section = contract.ScheduleFreeAdamW(
        name="schedule_free_adamw", learning_rate=LR, weight_decay=0.1
    )
    needs(section)
    (b1, b2), warmup = section.betas, 5
    model = Matrix()
    weight = model.layer.weight
    optimizer = build_optimizer(section, model, rows_per_step=1)
    weights = build_weights(section, optimizer)
    knob_rates = [LR * min(1, (t + 1) / warmup) for t in range(STEPS)]
    z = x = weight.detach().numpy().copy()
    v, weighed = np.zeros_like(z), 0.0
    for t, rate in enumerate(knob_rates, start=1):
        y = (1 - b1) * z + b1 * x
        np.testing.assert_allclose(weight.detach().numpy(), y, rtol=1e-12, atol=1e-13)
        g = gradient(y)
        v = b2 * v + (1 - b2) * g * g
        z = z - rate * (g / (np.sqrt(v / (1 - b2**t)) + section.eps) + section.weight_decay * y)
        weighed += rate**2
        x = x + rate**2 / weighed * (z - x)
        for group in optimizer.param_groups:
            group["lr"] = rate
        weight.grad = torch.tensor(gradient(weight.detach().numpy()))
        optimizer.step()
        before = weight.detach().clone()
        with weights.evaluated():
            np.testing.assert_allclose(weight.detach().numpy(), x, rtol=1e-11, atol=1e-13)
        assert torch.equal(weight.detach(), before)


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(6, 8)
        self.hidden = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.output = nn.Linear(16, 2)


@pytest.mark.parametrize("scale", ["match_rms_adamw", "original"])
def test_muon_makes_the_momentum_of_hidden_matrices_orthogonal(scale: str) -> None:
    section = contract.Muon(
        name="muon", learning_rate=LR, adamw_learning_rate=0.01, weight_decay=0.1, scale=scale
    )
    ours, reference = Hidden(), Hidden()
    optimizer = build_optimizer(section, ours, rows_per_step=1)
    rest = [p for p in reference.parameters() if p is not reference.hidden.weight]
    plain = torch.optim.AdamW(
        [
            {"params": [reference.output.weight], "weight_decay": 0.1},
            {"params": [p for p in rest if p is not reference.output.weight], "weight_decay": 0.0},
        ],
        lr=0.01,
        betas=section.betas,
        eps=section.eps,
        fused=True,
    )
    m = torch.zeros(16, 8)
    c = 0.2 * math.sqrt(16) if scale == "match_rms_adamw" else math.sqrt(2)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        for a, b in zip(ours.parameters(), reference.parameters(), strict=True):
            a.grad = b.grad = torch.randn(a.shape, generator=generator)
        before = ours.hidden.weight.detach().clone()
        g = ours.hidden.weight.grad
        m = 0.95 * m + 0.05 * g
        optimizer.step()
        plain.step()
        update = ((1 - LR * 0.1) * before - ours.hidden.weight.detach()) / (LR * c)
        u, _, vh = torch.linalg.svd(0.05 * g + 0.95 * m, full_matrices=False)
        singular = torch.linalg.svdvals(update)
        assert 0.6 < float(singular.min()) <= float(singular.max()) < 1.3
        # The five steps keep the directions and bring each length near 1.
        assert float((u.T @ update @ vh.T - torch.diag(singular)).abs().max()) < 0.5
        aligned = torch.trace(u.T @ update @ vh.T) / 8
        assert float(aligned) == pytest.approx(float(singular.mean()), abs=0.02)
    for ours_rest, theirs in zip(ours.parameters(), reference.parameters(), strict=True):
        if ours_rest.shape != (16, 8):
            assert torch.equal(ours_rest, theirs)


def test_adamw_8bit_is_the_library_s_own_and_stays_near_adamw() -> None:
    section = contract.AdamW8bit(name="adamw_8bit", learning_rate=0.01, weight_decay=0.1)
    needs(section)
    from bitsandbytes.optim.adamw import AdamW8bit

    torch.manual_seed(0)
    start = torch.randn(64, 128)

    def run(make: Callable[[nn.Linear], object]) -> Tensor:
        layer = nn.Linear(128, 64, bias=False)
        layer.weight.data.copy_(start)
        optimizer = make(layer)
        for _ in range(20):
            layer.weight.grad = layer.weight.detach() + 0.3 * torch.sin(3 * layer.weight.detach())
            optimizer.step()  # type: ignore[attr-defined]
        return layer.weight.detach().clone()

    ours = run(lambda layer: build_optimizer(section, layer, 1))
    library = run(lambda layer: AdamW8bit(layer.parameters(), lr=0.01, weight_decay=0.1))
    exact = run(lambda layer: torch.optim.AdamW(layer.parameters(), lr=0.01, weight_decay=0.1))
    assert torch.equal(ours, library)
    moved = float((exact - start).abs().mean())
    assert float((ours - exact).abs().mean()) < 0.05 * moved


STATE_BYTES = {
    "sgd": 4.0,
    "adam": 8.0,
    "adamw": 8.0,
    "adafactor": 0.03,
    "lamb": 8.0,
    "lion": 4.0,
    "muon": 4.0,
    "schedule_free_adamw": 8.0,
    "adamw_8bit": 2.04,
}


def every_section(rate: float) -> list[contract.AnyOptimizer]:
    return [
        contract.Sgd(name="sgd", learning_rate=rate, nesterov=True),
        contract.Adam(name="adam", learning_rate=rate),
        contract.AdamW(learning_rate=rate),
        contract.Adafactor(name="adafactor", learning_rate=rate),
        contract.Lamb(name="lamb", learning_rate=rate),
        contract.Lion(name="lion", learning_rate=rate),
        contract.Muon(name="muon", learning_rate=rate, adamw_learning_rate=rate),
        contract.ScheduleFreeAdamW(name="schedule_free_adamw", learning_rate=rate),
        contract.AdamW8bit(name="adamw_8bit", learning_rate=rate),
    ]


@pytest.mark.parametrize("section", every_section(0.01), ids=lambda section: section.name)
def test_the_state_is_as_large_as_the_guide_says(section: contract.AnyOptimizer) -> None:
    needs(section)
    model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Linear(256, 1, bias=False))
    optimizer = build_optimizer(section, model, 1)
    model(torch.ones(2, 256)).sum().backward()
    optimizer.step()
    hidden = model[0].weight
    held = {key: v for key, v in optimizer.state[hidden].items() if isinstance(v, Tensor)}
    tables = ("qmap1", "qmap2")  # one for all parameters
    size = sum(v.nbytes for key, v in held.items() if key not in tables)
    assert size / hidden.numel() == pytest.approx(STATE_BYTES[section.name], abs=0.01)
    guide = Path(__file__).parents[2] / "docs" / "guide" / "optimizers.md"
    line = next(
        line for line in guide.read_text("utf-8").splitlines() if f"| `{section.name}` |" in line
    )
    assert f"| {STATE_BYTES[section.name]:g} |" in line
