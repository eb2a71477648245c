import math

import pytest

pytest.importorskip("torch")

from trainwright.contract.sections.training.scheduler import Constant, CosineWithWarmup
from trainwright.optim.lr_schedule import build_schedule


def test_the_warmup_of_the_usual_schedule_may_be_in_steps() -> None:
    factor = build_schedule(CosineWithWarmup(warmup_steps=7), 50)
    assert [factor(step) for step in range(7)] == [(step + 1) / 7 for step in range(7)]
    assert factor(7) == 1.0
    assert factor(49) == pytest.approx(0.01)


def test_cosine_with_warmup_at_its_corners() -> None:
    section = CosineWithWarmup(warmup_ratio=0.1, min_lr_ratio=0.01)
    factor = build_schedule(section, 100)
    assert factor(0) == pytest.approx(1 / 10)
    assert factor(9) == pytest.approx(1.0)
    assert factor(10) == pytest.approx(1.0)
    assert factor(99) == pytest.approx(0.01)
    assert factor(10_000) == pytest.approx(0.01)
    middle = 10 + (99 - 10) / 2
    assert (factor(math.floor(middle)) + factor(math.ceil(middle))) / 2 == pytest.approx(
        0.505, abs=1e-3
    )


def test_after_the_warmup_it_only_falls() -> None:
    factor = build_schedule(CosineWithWarmup(warmup_ratio=0.0), 57)
    values = [factor(step) for step in range(57)]
    assert values[0] == 1.0
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("total", [1, 2, 3])
def test_the_shortest_runs_have_a_rate(total: int) -> None:
    factor = build_schedule(CosineWithWarmup(warmup_ratio=0.5), total)
    assert all(0 < factor(step) <= 1 for step in range(total))


def test_constant_stays() -> None:
    assert {build_schedule(Constant(name="constant"), 10)(step) for step in range(20)} == {1.0}
