"""Killed at every named point and at any time, a run goes on and ends with the same bits.

Each trial is a process that dies by SIGKILL, through the whole command: contract, data, training,
verdict, report. Rows F-01, F-02, F-03, F-05 and F-11 of the fault matrix.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from faults.tiers import TIER, only, times
from faults.trials import CANARIES, Reference, Trial, lost_steps
from faults.zygote import kill
from trainwright.core.faultpoints import FAULT_POINTS

pytestmark = pytest.mark.torch

KILLED = -9
NOT_IN_AN_UNBROKEN_RUN = ("data.worker", "tree", "rollback", "ckpt.load", "ckpt.aside", "resume")
IN_COPIES = ("copy.file", "copy.set", "copy.checkpoint")
"""See test_lost_machines.py."""
POINTS = [point for point in FAULT_POINTS if point not in (*NOT_IN_AN_UNBROKEN_RUN, *IN_COPIES)]
SWEEP = [
    (canary, point)
    for number, point in enumerate(POINTS)
    for turn, canary in enumerate(CANARIES)
    if TIER or number % 3 == turn
]

References = Callable[[str], Reference]
Trials = Callable[..., Trial]
Figure = Callable[..., None]


@pytest.mark.row("F-01")
@pytest.mark.parametrize(("canary", "point"), SWEEP)
def test_killed_at_a_point(
    canary: str, point: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    broken = trial(canary)
    nth = whole.nth(point, random.Random(canary + point))
    broken.dies(f"{point}:{nth}:kill")
    broken.ends_well()
    broken.check(whole)
    figure(kills=1, components_that_differ=0)


@pytest.mark.row("F-02")
@pytest.mark.parametrize("canary", CANARIES)
def test_killed_at_random_times(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    draw = random.Random(canary)
    wanted = times(3, 70)
    kills = number = most_lost = 0
    while kills < wanted:
        broken = trial(canary, number)
        number += 1
        done = False
        while kills < wanted and not done:
            child = broken.start()
            time.sleep(draw.uniform(0, 0.8 * whole.seconds))
            kill(child)
            death = broken.zygote.wait(child)
            kills += death.code == KILLED
            assert death.code in (KILLED, 0, 3), death.output
            done = death.code != KILLED
        broken.ends_well()
        broken.check(whole)
        most_lost = max([most_lost, *lost_steps(broken.attempts())])
    figure(kills=kills, runs=number, components_that_differ=0, most_steps_lost=most_lost)


@pytest.mark.row("F-03")
@pytest.mark.parametrize("canary", CANARIES)
def test_killed_in_the_middle_of_a_write(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    draw = random.Random(f"{canary} writes")
    kills = times(2, 30)
    for number in range(kills):
        # A block ends at any byte of any file of any checkpoint.
        broken = trial(canary, number, how={"write_bytes": draw.randint(40, 900)})
        broken.dies(f"ckpt.write:{draw.randint(1, 200)}:kill")
        broken.ends_well()
        broken.check(whole)
    figure(kills_inside_writes=kills, components_that_differ=0)


@pytest.mark.row("F-05")
@pytest.mark.parametrize("canary", only(("text",), CANARIES))
def test_killed_while_it_resumes(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    broken = trial(canary)
    # Seven times in the steps of one epoch, six of them before a step is made.
    faults = ["step.done:8:kill", "ckpt.load:1:kill", "resume:1:kill", "resume:3:kill"]
    faults += ["step.fwd:1:kill", "open:1:kill", "plan:1:kill", "step.opt:1:kill"]
    for fault in faults:
        broken.dies(fault)
    broken.ends_well()
    broken.check(whole)
    figure(kills=len(faults), components_that_differ=0)


@pytest.mark.row("F-05")
def test_killed_while_a_damaged_checkpoint_is_set_aside(
    reference: References, trial: Trials, figure: Figure
) -> None:
    broken = trial("table")
    broken.dies("step.done:14:kill")
    newest = broken.run.checkpoints / "step-0000000010" / "values.json"
    newest.write_bytes(newest.read_bytes()[:-1])
    broken.dies("ckpt.aside:1:kill")
    broken.ends_well()
    broken.check(reference("table"), lost=10, aside=1)
    figure(kills=2, components_that_differ=0)


@pytest.mark.row("F-05", "F-29")
def test_killed_before_a_rollback_is_saved(trial: Trials, figure: Figure) -> None:
    """Rows that give no number: the run goes back behind them, and leaves them out."""
    words = ("--set", "training.guard={non_finite: rollback}")
    how = {"poison": 106 + 3 * 16}  # the fourth step of the second epoch
    whole = trial("table", 0, words=words, how=how)
    whole.ends_well()
    broken = trial("table", 1, words=words, how=how)
    for _ in range(2):
        broken.dies("rollback:1:kill")
    broken.ends_well()
    assert broken.state() == whole.state()
    assert "rolled_back" in broken.run.events.read_text()
    figure(kills=2, components_that_differ=0)


@pytest.mark.slow
@pytest.mark.row("F-11")
@pytest.mark.parametrize("canary", CANARIES)
def test_killed_after_every_step(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    for step in range(1, len(whole.steps) + 1):
        broken = trial(canary, step)
        broken.dies(f"step.done:{step}:kill")
        broken.ends_well()
        broken.check(whole)
    figure(cuts=len(whole.steps), components_that_differ=0)
