"""Ways to compute, measured against each other."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainwright.engine.execution.precision import Autocast, Full  # noqa: E402
from trainwright.engine.execution.step_benchmark import (  # noqa: E402
    FEWEST_TURNS,
    TURNS,
    Seconds,
    Trials,
    Way,
    product_error,
)
from trainwright.objective.losses import LossSum  # noqa: E402

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
CALLS: list[str] = []


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4)
    )


def batch() -> tuple[torch.Tensor, ...]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(24, 16, generator=draw), torch.randn(24, 4, generator=draw)


def squared(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
    random.random()
    np.random.rand()
    return LossSum((model(batch[0]) - batch[1]).square().sum(), batch[1].numel())


def broken(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
    raise RuntimeError("no kernel for this\nand more")


@contextmanager
def entered() -> Iterator[None]:
    CALLS.append("in")
    yield
    CALLS.append("out")


def way(objective: object = squared, precision: object = None) -> Way:
    return Way(objective, precision or Full(), entered, lambda: CALLS.append("prepared"))


def test_weights_random_numbers_and_mode_are_left_as_found() -> None:
    model = network().eval()
    weights = [p.clone() for p in model.parameters()]
    numbers = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    Trials(model, batch()).compare([way(), way(precision=Autocast(CPU))])
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
    assert not model.training
    assert torch.equal(torch.get_rng_state(), numbers[0])
    assert random.getstate() == numbers[1]
    assert np.random.get_state()[1].tolist() == numbers[2]


def test_numbers_are_those_of_the_same_weights_without_dropout() -> None:
    model = network()
    first, second, lower = Trials(model, batch()).compare(
        [way(), way(), way(precision=Autocast(CPU))]
    )
    assert (first.loss, first.norm) == (second.loss, second.norm)
    assert first.loss != lower.loss
    assert lower.loss == pytest.approx(first.loss, rel=0.01)
    assert lower.norm == pytest.approx(first.norm, rel=0.05)
    fresh = network().eval()
    loss = squared(fresh, batch())
    (loss.sum / loss.targets).backward()
    assert first.loss == pytest.approx(loss.sum.item() / loss.targets, rel=1e-6)
    norm = torch.nn.utils.get_total_norm([p.grad for p in fresh.parameters()])
    assert first.norm == pytest.approx(float(norm), rel=1e-5)
    assert all(0 < one.seconds.used < 10 for one in (first, second, lower))


def test_a_way_that_fails_says_why_and_stops_nobody() -> None:
    fails, works = Trials(network(), batch()).compare([way(broken), way()])
    assert fails.failure == "no kernel for this"
    assert works.failure == ""
    assert works.seconds.used > 0


def test_each_turn_is_prepared_and_inside_its_kernels() -> None:
    CALLS.clear()
    Trials(network(), batch()).compare([way()])
    turns = len(CALLS) // 3 - 1
    assert FEWEST_TURNS <= turns <= TURNS
    assert ["prepared", "in", "out"] * (1 + turns) == CALLS


@pytest.mark.parametrize(
    ("seconds", "turns"),
    [
        ((1.0, 1.0, 0.5), FEWEST_TURNS),
        ((1.0, 0.99, 0.5), FEWEST_TURNS),
        ((1.0, 0.9, 0.9, 0.5), 3),
        ((1.0, 0.95, 0.9, 0.85, 0.8, 0.5), TURNS),
    ],
)
def test_a_turn_that_lowers_nothing_is_the_last(
    monkeypatch: pytest.MonkeyPatch, seconds: tuple[float, ...], turns: int
) -> None:
    trials, later = Trials(network(), batch()), iter(seconds)
    first, second = way(), way()
    asked: list[Way] = []

    def told(way: Way) -> Seconds:
        asked.append(way)
        used = next(later) if way is first else 1.5
        return Seconds(used, used)

    monkeypatch.setattr(trials, "_seconds", told)
    found, other = trials.times([first, second])
    assert len(asked) == 2 * turns
    assert found.seconds.used == min(seconds[:turns])
    assert other.seconds.used == 1.5
    assert math.isnan(found.loss)


class OwnTime:
    """A clock that only passes tell how late it is."""

    def __init__(self) -> None:
        self.now = 0.0

    def process_time(self) -> float:
        return self.now

    def perf_counter(self) -> float:
        return self.now


def test_the_first_pass_of_a_way_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, passes = OwnTime(), {"one": 0, "other": 0}
    monkeypatch.setattr("trainwright.engine.execution.step_benchmark.time", clock)

    def cold_at_first(name: str) -> Way:
        def told(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
            passes[name] += 1
            clock.now += 100.0 if passes[name] == 1 else 0.01
            return squared(model, batch)

        return way(told)

    trials = Trials(network(), batch())
    measure, measured = trials._seconds, []

    def noted(way: Way) -> Seconds:
        measured.append(measure(way))
        return measured[-1]

    monkeypatch.setattr(trials, "_seconds", noted)
    one, other = trials.times([cold_at_first("one"), cold_at_first("other")])
    assert [seconds.used for seconds in measured] == pytest.approx([0.01] * len(measured))
    assert one.seconds.used == pytest.approx(other.seconds.used)


def test_one_slow_turn_makes_no_way_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    trials, asked = Trials(network(), batch()), []
    first, second, slow = way(), way(), way()
    times = {id(first): iter((100.0, *[1.0] * TURNS)), id(second): iter([1.0] * TURNS)}

    def told(way: Way) -> Seconds:
        asked.append(way)
        used = next(times[id(way)]) if id(way) in times else 100.0
        return Seconds(used, used)

    monkeypatch.setattr(trials, "_seconds", told)
    found = [one.seconds.used for one in trials.times([first, second, slow])]
    assert found == [1.0, 1.0, 100.0]
    assert sum(one is slow for one in asked) == FEWEST_TURNS < sum(one is first for one in asked)


def test_products_of_onednn_have_an_error_that_is_found() -> None:
    found = torch.get_float32_matmul_precision()
    error = product_error(nn.Sequential(nn.Linear(300, 200), nn.Linear(200, 10)))
    # fp32 or, on a CPU that rounds, bf16.
    assert 1e-8 < error < 1e-2
    assert product_error(nn.Conv2d(3, 4, 3)) == 0.0
    assert torch.get_float32_matmul_precision() == found


def test_the_first_pass_is_told_from_those_after_it() -> None:
    calls: list[int] = []

    def slow_at_first(model: nn.Module, batch: tuple[torch.Tensor, ...]) -> LossSum:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.2)
        return squared(model, batch)

    first, tried = Trials(network(), batch()).first_and_next(way(slow_at_first))
    assert first >= 0.2
    assert tried.seconds.passed < first
