"""Each schedule against torch's own, or the formula of its paper."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.optim import lr_scheduler  # noqa: E402

from trainwright.contract.sections.training import scheduler as contract  # noqa: E402
from trainwright.optim.lr_schedule import build_schedule  # noqa: E402
from trainwright.optim.plateau import Plateau  # noqa: E402

T = 100
Make = Callable[[torch.optim.Optimizer], object]


def factors_of(make: Make, steps: int) -> list[float]:
    """The learning rates of a torch scheduler over a peak of 1."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = make(optimizer)
    found = [float(optimizer.param_groups[0]["lr"])]
    for _ in range(steps - 1):
        optimizer.step()
        scheduler.step()  # type: ignore[attr-defined]
        found.append(float(optimizer.param_groups[0]["lr"]))
    return found


REFERENCES: list[tuple[contract.AnyScheduler, Make]] = [
    (
        contract.Constant(name="constant", warmup_steps=20),
        lambda o: lr_scheduler.LinearLR(o, 1 / 20, 1.0, 19),
    ),
    (
        contract.LinearDecay(name="linear", min_lr_ratio=0.1),
        lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, T - 1),
    ),
    (
        contract.PolynomialDecay(name="polynomial", power=3.0),
        lambda o: lr_scheduler.PolynomialLR(o, T - 1, 3.0),
    ),
    (
        contract.CosineDecay(name="cosine", min_lr_ratio=0.05),
        lambda o: lr_scheduler.CosineAnnealingLR(o, T - 1, 0.05),
    ),
    (
        contract.StepDecay(name="step", milestones=(0.3, 0.55), factor=0.2),
        lambda o: lr_scheduler.MultiStepLR(o, [30, 55], 0.2),
    ),
    (
        contract.OneCycle(name="one_cycle"),
        lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=T, cycle_momentum=False),
    ),
    (
        contract.OneCycle(name="one_cycle", warmup_steps=50, start_ratio=0.1, min_lr_ratio=0.01),
        lambda o: lr_scheduler.OneCycleLR(
            o,
            1.0,
            total_steps=T,
            pct_start=0.5,
            div_factor=10,
            final_div_factor=10,
            cycle_momentum=False,
        ),
    ),
]


@pytest.mark.parametrize(("section", "make"), REFERENCES, ids=lambda v: getattr(v, "name", ""))
def test_the_factors_are_those_of_torch(section: contract.AnyScheduler, make: Make) -> None:
    ours = build_schedule(section, T)
    expected = factors_of(make, T)
    assert [ours(step) for step in range(T)] == pytest.approx(expected, rel=1e-10, abs=1e-14)


def test_each_cycle_is_a_cosine_of_its_own_length() -> None:
    section = contract.CosineDecay(
        name="cosine", cycles=3, cycle_growth=2.0, min_lr_ratio=0.1, warmup_steps=9
    )
    ours = build_schedule(section, 9 + 70)
    expected = [(step + 1) / 9 for step in range(9)]
    for length in (10, 20, 40):
        expected += factors_of(
            lambda o, length=length: lr_scheduler.CosineAnnealingLR(o, length - 1, 0.1), length
        )
    assert [ours(step) for step in range(79)] == pytest.approx(expected, rel=1e-10)
    assert ours(1000) == pytest.approx(0.1)


def test_one_cosine_is_the_cosine_with_warmup() -> None:
    cosine = build_schedule(contract.CosineDecay(name="cosine", warmup_ratio=0.05), T)
    usual = build_schedule(contract.CosineWithWarmup(), T)
    assert [cosine(step) for step in range(T)] == [usual(step) for step in range(T)]


def test_inverse_sqrt_is_equation_3_over_its_peak() -> None:
    ours = build_schedule(contract.InverseSqrt(name="inverse_sqrt", warmup_steps=16), T)
    paper = [min((t + 1) ** -0.5, (t + 1) * 16**-1.5) / 16**-0.5 for t in range(300)]
    assert [ours(step) for step in range(300)] == pytest.approx(paper, rel=1e-12)


@pytest.mark.parametrize("shape", ["one_minus_sqrt", "linear", "cosine"])
def test_warmup_stable_decay_has_its_three_stretches(shape: str) -> None:
    section = contract.WarmupStableDecay(
        name="warmup_stable_decay", warmup_ratio=0.1, shape=shape, min_lr_ratio=0.1
    )
    ours = build_schedule(section, T)
    assert [ours(step) for step in range(10)] == pytest.approx([(t + 1) / 10 for t in range(10)])
    assert {ours(step) for step in range(10, 81)} == {1.0}
    share = 7 / 19
    left = {
        "one_minus_sqrt": 1 - math.sqrt(share),
        "linear": 1 - share,
        "cosine": (1 + math.cos(math.pi * share)) / 2,
    }[shape]
    assert ours(87) == pytest.approx(0.1 + 0.9 * left, rel=1e-12)
    assert ours(99) == pytest.approx(0.1)


@pytest.mark.parametrize(("patience", "cooldown"), [(1, 0), (2, 0), (2, 3), (4, 1)])
def test_a_plateau_is_that_of_torch(patience: int, cooldown: int) -> None:
    generator = torch.Generator().manual_seed(patience)
    losses = (3 * 0.93 ** torch.arange(60) + torch.rand(60, generator=generator)).tolist()
    losses[20] = math.nan
    section = contract.ReduceOnPlateau(
        name="reduce_on_plateau",
        factor=0.5,
        patience=patience,
        cooldown=cooldown,
        min_delta=0.01,
        min_lr_ratio=0.0,
    )
    ours = build_schedule(section, T)
    assert isinstance(ours, Plateau)
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = lr_scheduler.ReduceLROnPlateau(
        optimizer,
        factor=0.5,
        patience=patience - 1,
        cooldown=cooldown,
        threshold=0.01,
        threshold_mode="abs",
        eps=0.0,
    )
    seen = set()
    for loss in losses:
        ours.tell(loss)
        theirs.step(loss)
        seen.add(ours(5))
        assert ours(5) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
    assert len(seen) > 2


@pytest.mark.parametrize("total", [1, 2, 3, 7])
@pytest.mark.parametrize("name", [section.name for section, _ in REFERENCES])
def test_the_shortest_runs_have_a_rate(name: str, total: int) -> None:
    section = next(section for section, _ in REFERENCES if section.name == name)
    ours = build_schedule(section, total)
    assert all(0 <= ours(step) <= 1 for step in range(total + 2))
    assert ours(0) > 0 or total == 1
