"""Clipping against the papers' formulas, written here once more in NumPy and in plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from trainwright.contract.sections.training.optimizer import AutoClip, ByNorm, ByValue, ZClip  # noqa: E402
from trainwright.engine.update.gradient_clipping import Clipping, build_clipping  # noqa: E402

pytestmark = pytest.mark.torch

DRAW = np.random.default_rng(0)
NORMS = [float(norm) for norm in np.exp(DRAW.normal(0, 0.5, 120))]
for spike in (40, 41, 77, 100):
    NORMS[spike] *= 30


def gradients_of(norm: float) -> list[Tensor]:
    """Two gradients that together have this norm."""
    direction = torch.tensor([3.0, -1.0, 2.0, 0.5], dtype=torch.float64)
    direction = direction / torch.linalg.vector_norm(direction) * norm
    return [direction[:1].clone(), direction[1:].clone()]


def norm_of(gradients: list[Tensor]) -> float:
    return float(torch.linalg.vector_norm(torch.cat(gradients)))


def on_host(clipping: Clipping, norm: float) -> tuple[float, float]:
    """The norm after it, and whether it says that it clipped."""
    gradients = gradients_of(norm)
    clipped = clipping.clip(gradients, norm)
    return norm_of(gradients), clipped


def on_device(clipping: Clipping, norm: float) -> tuple[float, float]:
    """The same by the way that reads nothing."""
    gradients = gradients_of(norm)
    asked = clipping.clip_on_device(gradients, torch.tensor(norm, dtype=torch.float64))
    return norm_of(gradients) / float(asked.divisor), float(asked.clipped)


def zclip(norms: list[float], z: float, decay: float, warmup: int, most: float) -> list[float]:
    """Algorithm 1 of the paper, with the variant called reciprocal."""
    limited: list[float] = []
    mean = variance = 0.0
    for number, norm in enumerate(norms):
        if number < warmup:
            limited.append(min(norm, most))
            if number == warmup - 1:
                mean, variance = float(np.mean(limited)), float(np.var(limited))
            continue
        deviation = math.sqrt(variance)
        score = (norm - mean) / deviation
        held = mean + z * deviation * (z / score) if score > z else norm
        held = min(held, most)
        mean = decay * mean + (1 - decay) * held
        variance = decay * variance + (1 - decay) * (held - mean) ** 2
        limited.append(held)
    return limited


@pytest.mark.parametrize("most", [math.inf, 1.5])
@pytest.mark.parametrize("way", [on_host, on_device])
def test_zclip_is_the_papers(way: object, most: float) -> None:
    section = ZClip(kind="zclip", max_norm="off" if most == math.inf else most)
    clipping = build_clipping(section)
    expected = zclip(NORMS, 2.5, 0.97, 25, most)
    found = [way(clipping, norm) for norm in NORMS]
    assert [norm for norm, _ in found] == pytest.approx(expected, rel=1e-5)
    assert [bool(clipped) for _, clipped in found] == [
        norm > held for norm, held in zip(NORMS, expected, strict=True)
    ]
    assert any(clipped for _, clipped in found)


@pytest.mark.parametrize("history", [10_000, 30])
@pytest.mark.parametrize("way", [on_host, on_device])
def test_autoclip_is_the_papers(way: object, history: int) -> None:
    clipping = build_clipping(AutoClip(kind="autoclip", percentile=40, history=history))
    for number, norm in enumerate(NORMS, start=1):
        limit = float(np.percentile(NORMS[max(0, number - history) : number], 40))
        found, clipped = way(clipping, norm)
        assert found == pytest.approx(min(norm, limit), rel=1e-5)
        assert bool(clipped) == (norm > limit)


@pytest.mark.parametrize("way", [on_host, on_device])
def test_by_norm_is_that_of_torch(way: object) -> None:
    for norm in NORMS[:20]:
        parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
        parameter.grad = torch.cat(gradients_of(norm))
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        expected = float(torch.linalg.vector_norm(parameter.grad))
        found, clipped = way(build_clipping(ByNorm()), norm)
        assert found == pytest.approx(expected, rel=1e-6)
        assert clipped == (norm > 1.0)
        assert way(build_clipping(1.0), norm)[0] == found
        assert way(build_clipping("off"), norm) == (pytest.approx(norm), 0.0)


@pytest.mark.parametrize("way", ["clip", "clip_on_device"])
def test_by_value_is_that_of_torch(way: str) -> None:
    clipping = build_clipping(ByValue(kind="value", max_value=0.5))
    for norm in (0.3, 0.55, 5.0):
        parameter = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
        parameter.grad = torch.cat(gradients_of(norm))
        torch.nn.utils.clip_grad_value_([parameter], 0.5)
        gradients = gradients_of(norm)
        given = norm if way == "clip" else torch.tensor(norm)
        answer = getattr(clipping, way)(gradients, given)
        assert torch.equal(torch.cat(gradients), parameter.grad)
        clipped = answer if way == "clip" else float(answer.clipped)
        assert clipped == float(norm == 5.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("kind", ["zclip", "autoclip"])
def test_a_norm_that_is_not_finite_is_forgotten_on_a_device(kind: str, bad: float) -> None:
    section = ZClip(kind="zclip") if kind == "zclip" else AutoClip(kind="autoclip")
    clean, dirty = build_clipping(section), build_clipping(section)
    for number, norm in enumerate(NORMS):
        if number in (3, 50):
            dirty.clip_on_device([], torch.tensor(bad))
        assert on_device(dirty, norm) == on_device(clean, norm)


@pytest.mark.parametrize("way", [on_host, on_device])
@pytest.mark.parametrize("cut", [10, 60])
@pytest.mark.parametrize("kind", ["zclip", "autoclip"])
def test_what_it_remembers_is_in_its_state(kind: str, cut: int, way: object) -> None:
    section = ZClip(kind="zclip") if kind == "zclip" else AutoClip(kind="autoclip", history=40)
    whole, first, second = (build_clipping(section) for _ in range(3))
    expected = [way(whole, norm) for norm in NORMS]
    found = [way(first, norm) for norm in NORMS[:cut]]
    second.restore(first.snapshot())
    found += [way(second, norm) for norm in NORMS[cut:]]
    assert found == expected
