"""Killed at every named point and at any time, a run goes on and ends with the same bits.

Each trial is a process that dies by SIGKILL, through the whole command: contract, data, training,
verdict, report. Rows F-01, F-02, F-03, F-05 and F-11 of the fault matrix.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from faults.trials import CANARIES, Reference, Trial
from faults.zygote import kill
from trainwright.core.faultpoints import FAULT_POINTS

pytestmark = pytest.mark.torch

NOT_IN_AN_UNBROKEN_RUN = ("rollback", "ckpt.load", "ckpt.aside", "resume")
POINTS = [point for point in FAULT_POINTS if point not in NOT_IN_AN_UNBROKEN_RUN]
KILLED = -9

References = Callable[[str], Reference]
Trials = Callable[..., Trial]


@pytest.mark.parametrize(
    ("canary", "point"),
    [(list(CANARIES)[number % 3], point) for number, point in enumerate(POINTS)],
)
def test_killed_at_a_point(canary: str, point: str, reference: References, trial: Trials) -> None:
    whole = reference(canary)
    broken = trial(canary)
    nth = whole.nth(point, random.Random(point))
    death = broken.once(f"{point}:{nth}:kill")
    assert death.code == KILLED, death.output
    broken.ends_well()
    broken.check(whole)


@pytest.mark.parametrize("canary", CANARIES)
def test_killed_at_random_times(canary: str, reference: References, trial: Trials) -> None:
    whole = reference(canary)
    draw = random.Random(canary)
    kills = number = 0
    while kills < 20:
        broken = trial(canary, number)
        number += 1
        done = False
        while kills < 20 and not done:
            child = broken.start()
            time.sleep(draw.uniform(0, 0.8 * whole.seconds))
            kill(child)
            death = broken.zygote.wait(child)
            kills += death.code == KILLED
            assert death.code in (KILLED, 0, 3), death.output
            done = death.code != KILLED
        broken.ends_well()
        broken.check(whole)
