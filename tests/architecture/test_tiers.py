"""What every test relies on: its tier, and a deadline that fits this machine."""

from __future__ import annotations

import signal
import time
from types import SimpleNamespace

import pytest

import deadlines
from deadlines import QUIET, SECONDS_BETWEEN, within
from faults.tiers import TIER, also_slow, each, in_test, only


@pytest.mark.slow
def test_slow_tests_run_in_tier_1_only() -> None:
    assert TIER == 1


def quick(parameters: list[object]) -> list[object]:
    return [one.values for one in parameters if not one.marks]


def test_parameters_of_tier_0() -> None:
    pairs = [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert quick(also_slow(pairs[:1], pairs[1:])) == pairs[:1]
    assert quick(each(2, pairs, start=1)) == [("b", 2), ("d", 4)]
    assert quick(only(("a", "c"), "abcd")) == [("a",), ("c",)]
    for made in (also_slow(pairs[:1], pairs[1:]), each(2, pairs), only(pairs[1:2], pairs)):
        assert [one.values for one in made] == pairs
        assert all(mark.name == "slow" for one in made for mark in one.marks)
    assert quick(in_test(3, pairs)) == [("a", 1), ("d", 4)]
    assert {mark.name for one in in_test(3, pairs) for mark in one.marks} == {"extended"}


@pytest.mark.timeout(50)
def test_a_deadline_is_a_signal_that_comes_later_on_a_busy_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left, _ = signal.getitimer(signal.ITIMER_REAL)
    # As it was measured when the timer of this test was set.
    whole = 50 * deadlines._Measured.slowness
    assert whole - 40 < left <= whole
    monkeypatch.setattr(deadlines._Measured, "slowness", 1.0)
    monkeypatch.setattr(deadlines._Measured, "until", -1.0)
    now = time.monotonic()
    for times, expected in ((0.5, 1.0), (1.0, 1.0), (4.0, 4.0)):
        monkeypatch.setattr(deadlines, "_timed", lambda times=times: times * QUIET)
        now += SECONDS_BETWEEN + 1
        monkeypatch.setattr(deadlines, "time", SimpleNamespace(monotonic=lambda now=now: now))
        assert within(10) == 10 * expected
        monkeypatch.setattr(deadlines, "_timed", lambda: 100.0)
        assert within(10) == 10 * expected, "measured again too soon"


ONLY_IN_TIER_1 = {"F-04", "F-38"}
"""Power cuts, and hosts as network namespaces: both need root and minutes."""


def test_every_row_of_the_fault_matrix_is_tried_in_tier_0(request: pytest.FixtureRequest) -> None:
    """Of what this session has collected."""
    rows: dict[bool, set[str]] = {False: set(), True: set()}
    for item in request.session.items:
        is_slow = item.get_closest_marker("slow") is not None
        rows[is_slow].update(row for mark in item.iter_markers("row") for row in mark.args)
    assert rows[True] - rows[False] <= ONLY_IN_TIER_1
