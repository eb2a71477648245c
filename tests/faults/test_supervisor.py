"""`train --restart`: again after a crash, never after a mistake, and not for ever. Row F-06."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from faults.trials import Reference, Trial
from faults.zygote import kill
from trainwright.data.base.counter_rng import Permutation

pytestmark = pytest.mark.torch

ROWS, BATCH = 106, 16
References = Callable[[str], Reference]
Trials = Callable[..., Trial]
Figure = Callable[..., None]


@pytest.mark.row("F-06")
def test_a_run_that_crashes_again_and_again_comes_to_its_end(
    reference: References, trial: Trials, figure: Figure
) -> None:
    supervised = trial("table", words=("--restart", "9"))
    # Each attempt dies in its ninth step, which is another one each time.
    death = supervised.once("step.fwd:9:kill")
    assert death.code in (0, 3), death.output
    assert death.output.count("the run died of signal 9") >= 2
    supervised.check(reference("table"))
    figure(crashes_survived=death.output.count("the run died"))


@pytest.mark.row("F-06")
@pytest.mark.parametrize("how", ["kill", "raise"])
def test_a_crash_loop_ends_with_a_diagnosis(
    how: str, reference: References, trial: Trials, figure: Figure
) -> None:
    cursor = ROWS + 3 * BATCH
    looping = trial("table", words=("--restart", "9"), how={"dies_at": cursor, "dies_by": how})
    death = looping.once()
    assert death.code == 1, death.output
    assert death.output.count("the run died of") == 3
    assert "three crashes at the same step: step 11 (epoch 1)" in death.output
    rows = Permutation(ROWS, 0).at(1, 3 * BATCH, 4 * BATCH)
    assert f"training rows {', '.join(str(row) for row in rows[:12])} and 4 more" in death.output
    looping.how = {}
    looping.words = ()
    looping.ends_well()
    looping.check(reference("table"))
    figure(crash_loops=1, most_starts=3)


@pytest.mark.row("F-06")
def test_the_restarts_are_limited(trial: Trials) -> None:
    supervised = trial("table", words=("--restart", "1"))
    death = supervised.once("start:1:kill")
    assert death.code == 1
    assert death.output.count("the run died of signal 9") == 2
    assert "1 restarts are used up" in death.output
    assert not supervised.run.path.exists()


@pytest.mark.row("F-06")
def test_a_mistake_is_no_crash(trial: Trials) -> None:
    supervised = trial("table", words=("--restart", "5", "--set", "model.kind=none"))
    death = supervised.once()
    assert (death.code, "the run died" in death.output) == (2, False)


@pytest.mark.row("F-07")
def test_a_signal_is_passed_on_and_ends_it(reference: References, trial: Trials) -> None:
    supervised = trial("table", words=("--restart", "5"))
    child = supervised.start("step.done:5:delay=1")
    while not supervised.run.signals.exists():
        time.sleep(0.01)
    kill(child, signal.SIGTERM)
    death = supervised.zygote.wait(child)
    assert death.code == 75, death.output
    supervised.ends_well()
    supervised.check(reference("table"), lost=0)
