"""Stop rules: when they hold, what they survive, and an ending that fits into the budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from canary import STEPS, Canary, Setting, everything, start  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from comparing import differences  # noqa: E402
from contract_runs import train  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.core.progress import Progress  # noqa: E402
from trainwright.engine.stopping.metric_stop_rules import (  # noqa: E402
    GradientNormBelow,
    LossPlateauRule,
    MetricStopRules,
    StepRule,
)
from trainwright.engine.stopping.stop_rules import Patience, Reserve, TargetReached, TimeLimit  # noqa: E402
from trainwright.testing.fakes import MemoryCheckpoints  # noqa: E402
from trainwright.tracking.events import Event, Saved, StepKept, Validated  # noqa: E402

pytestmark = pytest.mark.torch

HERE = Progress()


def watched(canary: Canary, rule: StepRule, window: int = 1) -> Canary:
    rules = MetricStopRules((rule,), window)
    canary.change(
        outcome_observers=(rules,),
        stop_rules=(*canary.job.stop_rules, rule),
        state={**canary.job.state, "stop": rules},
    )
    return canary


def test_a_plateau_is_two_stretches_without_gain() -> None:
    rule = LossPlateauRule(4, 0.1)
    for loss in [8.0] * 4 + [7.0] * 4 + [6.0] * 4 + [5.5] * 3:
        rule.take(loss, 1.0)
        assert rule.reason(HERE) is None
    rule.take(5.5, 1.0)
    reason = rule.reason(HERE)
    assert reason is not None
    assert reason.kind == "early"
    assert "5.5 over the last 4 steps, 6 over the 4 before" in reason.text


def test_a_negative_loss_that_falls_is_no_plateau() -> None:
    rule = LossPlateauRule(2, 0.1)
    for loss in (-1.0, -1.0, -2.0, -2.0):
        rule.take(loss, 1.0)
    assert rule.reason(HERE) is None
    for loss in (-2.1, -2.1):
        rule.take(loss, 1.0)
    assert rule.reason(HERE) is not None


def test_a_small_gradient_counts_ten_times_in_a_row() -> None:
    rule = GradientNormBelow(0.5)
    for norm in [0.4] * 9 + [0.6] + [0.4] * 9:
        rule.take(1.0, norm)
        assert rule.reason(HERE) is None
    rule.take(1.0, 0.4)
    assert rule.reason(HERE) is not None


@pytest.mark.parametrize(("direction", "values"), [("min", [3, 2, 1.5]), ("max", [0.5, 0.8, 0.9])])
def test_a_target_is_reached_by_the_watched_value(direction: str, values: list[float]) -> None:
    patience = Patience("val_score", direction, math.inf)
    rule = TargetReached(patience, values[-1])
    assert rule.reason(HERE) is None
    for step, value in enumerate([math.nan, *values]):
        assert rule.reason(HERE) is None
        patience.tell(value, step)
    reason = rule.reason(HERE)
    assert reason is not None
    assert f"at step {len(values)} reached the target" in reason.text


RULES: dict[str, Callable[[], StepRule]] = {
    "plateau": lambda: LossPlateauRule(3, 0.9),
    "norm": lambda: GradientNormBelow(1e9),
}


@pytest.mark.parametrize("window", [1, 5])
@pytest.mark.parametrize("cut", [1, 2, 3, 5])
@pytest.mark.parametrize("name", RULES)
def test_a_cut_run_ends_at_the_same_step(name: str, cut: int, window: int, tmp_path: Path) -> None:
    def begin(folder: str, process: int = 0) -> Canary:
        store = Checkpoints(tmp_path / folder / "ckpt", 99)
        canary = start(tmp_path / folder, store, Setting(), process)
        return watched(canary, RULES[name](), window)

    whole = begin("whole")
    ended = whole.fit()
    assert ended.kind == "early"
    assert cut < ended.progress.step < STEPS
    expected = everything(whole, ended)
    first = begin("cut")

    def stop(event: Event) -> None:
        if isinstance(event, StepKept) and event.progress.step == cut:
            first.flag.raise_flag("SIGTERM")

    first.on_event.append(stop)
    first.fit()
    second = begin("cut", process=6)
    assert differences(everything(second, second.fit()), expected) == []


def saved(seconds: float) -> Saved:
    return Saved(HERE, "step-1", seconds, 10, math.nan)


def test_an_ending_is_paid_from_the_budget(tmp_path: Path) -> None:
    reserve = Reserve()
    limit = TimeLimit(1000.0, "the budget", reserve)
    assert limit.reason(HERE) is None
    reserve.observe(saved(0.0))
    reserve.observe(Validated(HERE, {}, 990.0, improved=True))
    assert limit.reason(HERE) is None
    reserve.observe(saved(11.0))
    reason = limit.reason(HERE)
    assert reason is not None
    assert reason.kind == "budget"
    canary = start(tmp_path, MemoryCheckpoints())
    canary.change(stop_rules=(limit,))
    assert canary.fit().kind == "budget"


def test_the_longest_of_each_part_counts() -> None:
    reserve = Reserve()
    assert reserve.seconds == 0
    for event in (saved(2.0), saved(1.0), Validated(HERE, {}, 4.0, improved=False)):
        reserve.observe(event)
    assert reserve.seconds == 6.0


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ("{cost: 1.0e-6, price_per_hour: 2.0}", "the budget of 1e-06 at 2 an hour"),
        ("{cost: 5.0, price_per_hour: 1.0, hours: 1.0e-7}", "the budget of 1e-07 hours"),
    ],
)
def test_the_limit_that_binds_is_named(budget: str, reason: str, tmp_path: Path) -> None:
    network = with_layers("[8]")
    run = train(write_project(tmp_path, network), "one", f"budget={budget}")
    assert run.ended.kind == "budget"
    assert run.ended.reason.startswith(f"{reason}, step 0 of ")
