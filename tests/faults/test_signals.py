"""SIGTERM, SIGINT and SIGUSR1 in every phase of a run. Rows F-07 and F-08 of the fault matrix."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from faults.tiers import each, only, times
from faults.trials import Reference, Trial, lost_steps
from faults.zygote import kill
from trainwright.core.files import read_json
from trainwright.tracking.event_log import read_events

pytestmark = pytest.mark.torch

References = Callable[[str], Reference]
Trials = Callable[..., Trial]
Figure = Callable[..., None]

PHASES = {
    "start-up": "start:1",
    "reading": "ready:1",
    "the folder is made": "open:1",
    "first batch": "data.next:1",
    "waiting for data": "data.next:9",
    "between two micro-batches": "step.fwd:11",
    "in the backward pass": "step.bwd:7",
    "update": "step.opt:8",
    "validation": "eval:1",
    "during a save": "ckpt.write:30",
    "the save at the end": "ckpt.manifest:5",
    "export": "export:1",
    "judging": "judge:1",
    "the end": "finish:1",
}

SIGNALS = [(phase, action) for phase in PHASES for action in ("term", "int")]
ALTERNATING = [pair for number, pair in enumerate(SIGNALS) if number % 4 in (0, 3)]


@pytest.mark.row("F-07", "F-08")
@pytest.mark.parametrize(("phase", "action"), only(ALTERNATING, SIGNALS))
def test_the_first_signal_ends_the_run_in_order(
    phase: str, action: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference("text")
    for number in range(times(1, 3)):
        stopped = trial("text", number)
        death = stopped.once(f"{PHASES[phase]}:{action}")
        assert death.code == 75, death.output
        assert f"stopped by SIG{action.upper()}" in death.output
        if stopped.run.record.exists():
            ending = read_json(stopped.run.record)["ending"]
            assert (ending["state"], ending["exit_code"]) == ("interrupted", 75)
        else:
            assert ("nothing was written" in death.output) != stopped.run.path.exists()
        stopped.ends_well()
        stopped.check(whole, lost=0)
    figure(signals=times(1, 3), steps_lost=sum(lost_steps(stopped.attempts())))


@pytest.mark.row("F-08")
@pytest.mark.parametrize("pair", each(3, ["term,int", "int,int", "term,term"]))
def test_the_second_signal_ends_it_at_once(
    pair: str, reference: References, trial: Trials, figure: Figure
) -> None:
    first, second = pair.split(",")
    stopped = trial("text")
    death = stopped.once(f"step.fwd:25:{first},step.bwd:25:{second}")
    assert death.code == 130, death.output
    assert read_json(stopped.run.record)["ending"]["state"] == "interrupted"
    stopped.ends_well()
    stopped.check(reference("text"))
    figure(ended_at_once=1, components_that_differ=0)


@pytest.mark.row("F-08")
def test_a_signal_and_then_a_kill(reference: References, trial: Trials, figure: Figure) -> None:
    whole = reference("images")
    stopped = trial("images")
    death = stopped.once("step.fwd:12:term,ckpt.manifest:3:kill")
    assert death.code == -9, death.output
    stopped.ends_well()
    stopped.check(whole)
    figure(kills=1, components_that_differ=0)


@pytest.mark.row("F-07")
def test_a_save_in_between_changes_no_bit(reference: References, trial: Trials) -> None:
    asked = trial("table")
    death = asked.once("step.fwd:8:usr1,step.done:9:kill")
    assert death.code == -9, death.output
    saved = [event["step"] for event in read_events(asked.run.events) if event["event"] == "saved"]
    assert 8 in saved
    asked.ends_well()
    asked.check(reference("table"), lost=1)


@pytest.mark.row("F-07")
@pytest.mark.parametrize("point", each(3, ["start", "open", "judge"], start=1))
def test_a_wish_to_save_outside_of_the_training_does_no_harm(
    point: str, reference: References, trial: Trials
) -> None:
    asked = trial("images")
    death = asked.once(f"{point}:1:usr1")
    assert death.code in (0, 3), death.output
    asked.check(reference("images"))


@pytest.mark.row("F-07")
def test_a_real_signal_at_any_time(reference: References, trial: Trials, figure: Figure) -> None:
    whole = reference("table")
    stops = 0
    for number in range(times(2, 20)):
        stopped = trial("table", number)
        child = stopped.start()
        time.sleep(whole.seconds * (number + 1) / times(3, 21))
        kill(child, signal.SIGTERM)
        death = stopped.zygote.wait(child)
        # Before the command has set its handlers it ends as any program does.
        assert death.code in (0, 3, 75, -15), death.output
        stops += death.code == 75
        stopped.ends_well()
        stopped.check(whole, lost=0)
    figure(signals=stops, steps_lost=0)


@pytest.mark.row("F-05")
def test_the_report_says_where_a_run_was_cut_and_what_it_lost(trial: Trials) -> None:
    cut = trial("images", how={"reports": True})
    cut.dies("ckpt.manifest:3:kill")
    assert cut.once("step.fwd:4:term").code == 75
    cut.ends_well()
    page = cut.run.report.read_text()
    assert "cut: the run died after step 9 or a later one without recording a reason" in page
    assert "resumed from step-0000000005; repeated steps: 4" in page
    assert "cut: the run ended after step 9: stopped by SIGTERM" in page
    assert "resumed from step-0000000009; repeated steps: 0" in page


@pytest.mark.row("F-12")
def test_resume_needs_only_the_folder(reference: References, trial: Trials) -> None:
    broken = trial("table")
    broken.dies("step.done:9:kill")
    death = broken.zygote.run(
        ["resume", "runs/one"], broken.folder, journal=str(broken.folder / "journal.txt")
    )
    assert death.code in (0, 3), death.output
    broken.check(reference("table"))
    again = broken.zygote.run(["resume", "one"], broken.folder)
    assert "nothing to do" in again.output
