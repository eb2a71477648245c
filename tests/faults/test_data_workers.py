"""Worker processes of a run die, hang and fail: the run goes on with the same bits, or says why it
does not. Row F-35; that of the feed alone is in tests/unit/data/test_workers.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faults.tiers import each
from faults.trials import Reference, Trial
from trainwright.tracking.event_log import read_events

pytestmark = [pytest.mark.torch, pytest.mark.row("F-35")]

References = Callable[[str], Reference]
Trials = Callable[..., Trial]
Figure = Callable[..., None]


def workers(count: int, *settings: str) -> tuple[str, ...]:
    wanted = (f"data.num_workers={count}", *settings)
    return tuple(word for setting in wanted for word in ("--set", setting))


def told(trial: Trial) -> list[str]:
    return [event["message"] for event in read_events(trial.run.events) if "worker" in str(event)]


@pytest.mark.parametrize("canary", each(3, ["table", "text", "images"], start=1))
def test_killed_with_workers_and_gone_on_with_any_other_number(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    broken = trial(canary, words=workers(2))
    broken.dies("step.done:4:kill")
    broken.words = workers(0)
    broken.dies("step.bwd:5:kill")
    broken.words = workers(1)
    broken.ends_well()
    broken.check(whole)
    figure(kills=2, components_that_differ=0)


@pytest.mark.parametrize("action", ["kill", "term"])
def test_workers_die_and_are_started_again(
    action: str, reference: References, trial: Trials, figure: Figure
) -> None:
    broken = trial("images", words=workers(2, "data.loading.ahead=1"))
    death = broken.once(f"data.worker:2:{action}")
    assert death.code in (0, 3), death.output
    broken.check(reference("images"))
    stories = told(broken)
    assert stories
    assert all("died: signal" in story and "it had rows" in story for story in stories)
    figure(workers_killed=len(stories), components_that_differ=0)


def test_workers_that_always_die_end_the_run(trial: Trials, reference: References) -> None:
    broken = trial("images", words=workers(2))
    death = broken.once("data.worker:*:kill")
    assert death.code == 16, death.output
    assert "signal 9 (SIGKILL)" in death.output
    assert "rows" in death.output
    assert "data.loading.restarts is 3" in death.output
    broken.words = workers(0)
    broken.ends_well()
    broken.check(reference("images"))


def test_a_worker_that_hangs_is_killed_in_time(trial: Trials, reference: References) -> None:
    broken = trial("images", words=workers(2, "data.loading.hang_seconds=0.5"))
    death = broken.once("data.worker:2:delay=30")
    assert death.code in (0, 3), death.output
    broken.check(reference("images"))
    assert any("did not answer for 0.5 s" in story for story in told(broken))


def test_an_error_of_a_worker_is_told(trial: Trials, reference: References) -> None:
    broken = trial("images", words=workers(2))
    death = broken.once("data.worker:2:raise")
    assert death.code in (0, 3), death.output
    broken.check(reference("images"))
    assert any("FaultInjected: at data.worker" in story for story in told(broken))
