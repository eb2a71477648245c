"""When a checkpoint is due by the clock, and how far apart saves are best."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from scipy.optimize import minimize_scalar  # noqa: E402

from canary import (  # noqa: E402
    STARTS,
    Canary,
    Setting,
    everything,
    start,
    unbroken,
)
from comparing import differences  # noqa: E402
from trainwright.checkpoint.state import Snapshot  # noqa: E402
from trainwright.checkpoint.store import Checkpoints  # noqa: E402
from trainwright.core.progress import (  # noqa: E402
    Progress,
    StopFlag,
)
from trainwright.distributed.strategy import Packet  # noqa: E402
from trainwright.engine.job import Every  # noqa: E402
from trainwright.engine.save_interval import (  # noqa: E402
    BestSpacing,
    ByClock,
    FirstOf,
    FixedSpacing,
    best_interval_seconds,
)
from trainwright.engine.saving import (  # noqa: E402
    SaveRequested,
    Saves,
)
from trainwright.engine.stopping.rank_requests import RankRequests  # noqa: E402
from trainwright.engine.stopping.stop_rules import StopRequested, TimeLimit  # noqa: E402
from trainwright.testing.fake_strategy import FakeRanks, FakeStrategy  # noqa: E402
from trainwright.testing.fakes import (  # noqa: E402
    FakeClock,
    MemoryCheckpoints,
)
from trainwright.tracking.events import Event, Saved, StepKept  # noqa: E402

pytestmark = pytest.mark.torch

HERE = Progress(1, 1, 1, 0)


def lost_share(interval: float, save: float, failure: float) -> float:
    """Wall time over training time, for failures of a Poisson process: Daly 2006, section 3."""
    return failure * math.expm1((interval + save) / failure) / interval


@pytest.mark.parametrize("save", [0.01, 0.5, 5.0, 60.0, 300.0])
@pytest.mark.parametrize("hours", [0.5, 6.0, 100.0])
def test_the_interval_loses_the_least_time(save: float, hours: float) -> None:
    failure = 3600 * hours
    found = best_interval_seconds(save, failure)
    best = minimize_scalar(
        lost_share,
        bounds=(1e-3, 2 * failure),
        args=(save, failure),
        method="bounded",
        options={"xatol": 1e-6},
    )
    assert found == pytest.approx(best.x, rel=0.01)
    assert lost_share(found, save, failure) <= best.fun * (1 + 1e-5)


def test_a_save_that_outlasts_the_machine() -> None:
    assert best_interval_seconds(3000.0, 1000.0) == 1000.0


def test_the_clock_counts_from_the_last_save() -> None:
    clock = FakeClock()
    pace = ByClock(FixedSpacing(60.0), clock)
    for seconds, due in ((0, False), (59, False), (1, True), (5, True)):
        clock.pass_seconds(seconds)
        assert pace.due(HERE) is due
    pace.stalled(2.0)
    assert not pace.due(HERE)
    clock.pass_seconds(60)
    assert pace.due(HERE)


def test_dates_that_jump_change_nothing() -> None:
    clock = FakeClock()
    pace = ByClock(FixedSpacing(60.0), clock)
    clock.set_date(clock.now().replace(year=2030))
    assert not pace.due(HERE)
    clock.set_date(clock.now().replace(year=2020))
    clock.pass_seconds(60)
    assert pace.due(HERE)


def test_measured_spacing_follows_what_saves_cost() -> None:
    spacing = BestSpacing(3600.0)
    assert spacing.seconds == 0.0
    spacing.stalled(2.0)
    assert spacing.seconds == best_interval_seconds(2.0, 3600.0)
    spacing.stalled(4.0)
    assert spacing.seconds == best_interval_seconds(3.0, 3600.0)
    spacing.wrote(500.0)
    assert spacing.seconds == 500.0
    for _ in range(40):
        spacing.stalled(1000.0)
    assert spacing.seconds == pytest.approx(best_interval_seconds(1000.0, 3600.0))


def test_the_first_of_two() -> None:
    clock = FakeClock()
    either = FirstOf([Every(3), ByClock(FixedSpacing(10.0), clock)])
    assert [either.due(Progress(step=step)) for step in (1, 2, 3)] == [False, False, True]
    clock.pass_seconds(10)
    assert either.due(Progress(step=4))


def test_a_rank_among_several_saves_once_for_each_time_the_clock_is_due() -> None:
    clock, requests = FakeClock(), RankRequests(FakeStrategy(0, FakeRanks(2)))
    pace = ByClock(FixedSpacing(10.0), clock)
    due = FirstOf([Every(10**6), requests.clocked_save(pace)])
    exchange = requests.carried_by(lambda packet: packet)
    saved = []
    for step in range(1, 36):
        clock.pass_seconds(1)
        exchange(Packet(0.0, 1))
        if due.due(Progress(step=step)):
            saved.append(step)
            pace.stalled(0.0)
    assert saved == [11, 22, 33]


def test_a_clock_and_a_signal_that_meet_save_once() -> None:
    """Asked in the order of `compose_job`: a clock that is still due at its save asks no more."""
    clock, flag = FakeClock(), StopFlag()
    requests = RankRequests(FakeStrategy(0, FakeRanks(2)))
    pace = ByClock(FixedSpacing(10.0), clock)
    by_clock = FirstOf([Every(10**6), requests.clocked_save(pace)])
    due = FirstOf([by_clock, requests.signalled_save(SaveRequested(flag))])
    exchange = requests.carried_by(lambda packet: packet)
    saved = []
    for step in range(1, 26):
        clock.pass_seconds(1)
        exchange(Packet(0.0, 1))
        if step == 10:
            flag.ask_to_save()
        if due.due(Progress(step=step)):
            saved.append(step)
            pace.stalled(0.0)
    assert saved == [11, 22]


@pytest.mark.parametrize("first", ["clock", "signal"])
def test_a_signal_goes_before_a_clock_that_ends_the_same_step(first: str) -> None:
    flag = StopFlag()
    flag.raise_flag("SIGTERM")
    requests = RankRequests(FakeStrategy(0, FakeRanks(2)))
    clock = requests.clock(TimeLimit(0.0, "the budget"))
    signal = requests.signal(StopRequested(flag))
    rules = (clock, signal) if first == "clock" else (signal, clock)
    assert [rule.reason(HERE) for rule in rules] == [None, None], "no other rank knows"
    requests.carried_by(lambda packet: packet)(Packet(0.0, 1))
    said = [found.kind for rule in rules if (found := rule.reason(HERE))]
    assert said == ["interrupted"]


class Writing:
    """A store for which the clock goes on while it copies and while it writes."""

    def __init__(self, clock: FakeClock, copying: float, writing: float) -> None:
        self.inner, self.clock = MemoryCheckpoints(), clock
        self.copying, self.writing = copying, writing
        self.settled, self.newest_valid = self.inner.settled, self.inner.newest_valid

    def taking(self) -> object:
        self.clock.pass_seconds(self.copying)
        return self.inner.taking()

    def save(self, step: int, parts: Mapping[str, Snapshot], inventory: object, score: object):  # type: ignore[no-untyped-def]
        self.clock.pass_seconds(self.writing)
        return replace(
            self.inner.save(step, parts, inventory, score),  # type: ignore[arg-type]
            seconds=self.writing,
        )


def test_what_a_save_costs_is_measured(tmp_path: Path) -> None:
    clock = FakeClock()
    spacing = BestSpacing(3600.0)
    pace = ByClock(spacing, clock)
    canary = start(tmp_path, Writing(clock, 1.0, 7.0))
    with Saves(canary.job, pace.observe) as saves:
        saves.save(Progress(1, 1, 1, 0))
    assert not pace.due(Progress())
    assert spacing.seconds == best_interval_seconds(8.0, 3600.0)


SETTING = Setting(checkpoint_every=10**6, validate_every=5)


def paced(canary: Canary, seed: int) -> None:
    """Saves by a clock on which steps take 0 to 2 seconds."""
    clock, draw = FakeClock(), random.Random(seed)
    pace = ByClock(FixedSpacing(2.0), clock)
    canary.change(checkpoint_every=pace, observers=(*canary.job.observers, pace))

    def react(event: Event) -> None:
        if isinstance(event, StepKept):
            clock.pass_seconds(2 * draw.random())

    canary.on_event.append(react)


@pytest.mark.parametrize("kind", STARTS)
def test_saving_by_the_clock_changes_no_bit(kind: str, tmp_path: Path) -> None:
    seen = set()
    for seed in range(4):
        folder = tmp_path / str(seed)
        store = Checkpoints(folder / "ckpt", 1)
        canary = STARTS[kind](folder, store, SETTING)
        paced(canary, seed)
        stop = seed % 2 == 0
        if stop:  # cut in the middle, and gone on with on another clock

            def react(event: Event, canary: Canary = canary) -> None:
                if isinstance(event, StepKept) and event.progress.step == 7:
                    canary.flag.raise_flag("SIGTERM")

            canary.on_event.append(react)
        ended = canary.fit()
        seen.add(tuple(e.progress.step for e in canary.seen.events if isinstance(e, Saved)))
        if stop:
            assert ended.kind == "interrupted"
            canary = STARTS[kind](folder, store, SETTING, process=9)
            paced(canary, seed + 100)
            ended = canary.fit()
        assert differences(everything(canary, ended), unbroken(SETTING)) == []
    assert len(seen) > 1, "the saves fell on other steps"
