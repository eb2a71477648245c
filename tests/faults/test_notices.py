"""A notice that the machine will be taken away, in every phase of a run. Row F-07."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from command import command, inside, write_project
from deadlines import within
from faults.trials import Reference, Trial
from metadata import serve_metadata
from trainwright.core.errors import Interrupted
from trainwright.core.files import read_json
from trainwright.core.progress import StopFlag
from trainwright.run.supervise.preemption import NoticeWatch, before_the_run, stop_on_signals
from trainwright.testing.notice_conformance import FakeNotices
from trainwright.tracking.event_log import read_events

References = Callable[[str], Reference]
Trials = Callable[..., Trial]

PHASES = {
    "the folder is made": "open:1",
    "first batch": "data.next:1",
    "in the backward pass": "step.bwd:7",
    "validation": "eval:1",
    "during a save": "ckpt.write:30",
    "judging": "judge:1",
}


def watched(path: Path) -> tuple[str, ...]:
    """The words that make a run look for a notice often."""
    return ("--set", f"resume.notice={path}", "--set", "resume.notice_every_seconds=0.01")


@pytest.mark.torch
@pytest.mark.row("F-07")
@pytest.mark.parametrize("phase", PHASES)
def test_a_notice_ends_the_run_as_a_signal_does(
    phase: str, reference: References, trial: Trials, tmp_path: Path, figure: Callable[..., None]
) -> None:
    notice = tmp_path / "notice"
    stopped = trial("text", words=watched(notice), how={"notice": str(notice)})
    death = stopped.once(f"{PHASES[phase]}:delay=0.4")
    assert death.code == 75, death.output
    assert f"stopped by the notice {notice}: maintenance" in death.output
    assert "go on with:" in death.output
    ending = read_json(stopped.run.record)["ending"]
    assert (ending["state"], ending["exit_code"]) == ("interrupted", 75)
    notice.unlink()
    stopped.ends_well()
    stopped.check(reference("text"), lost=0)
    figure(notices=1, steps_lost=0)


@pytest.mark.torch
@pytest.mark.row("F-08")
def test_a_signal_behind_a_notice_is_not_a_second_one(
    reference: References, trial: Trials, tmp_path: Path
) -> None:
    """Clouds send SIGTERM soon after their notice: the checkpoint must still be written."""
    notice = tmp_path / "notice"
    stopped = trial("text", words=watched(notice), how={"notice": str(notice)})
    death = stopped.once("step.fwd:11:delay=0.4,step.bwd:11:term")
    assert death.code == 75, death.output
    notice.unlink()
    stopped.ends_well()
    stopped.check(reference("text"), lost=0)


@pytest.mark.torch
@pytest.mark.row("F-08")
def test_two_signals_behind_a_notice_end_it_at_once(trial: Trials, tmp_path: Path) -> None:
    notice = tmp_path / "notice"
    stopped = trial("text", words=watched(notice), how={"notice": str(notice)})
    death = stopped.once("step.fwd:11:delay=0.4,step.bwd:11:term,step.opt:4:int")
    assert death.code == 130, death.output


def noted(run: Path) -> list[str]:
    """What the events say of notices."""
    events = read_events(run / "events.jsonl")
    return [event["message"] for event in events if event.get("kind") == "notice"]


def test_a_spot_machine_that_is_taken_away_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path)
    words = ("train", "small.yaml", "--run", "one", "--set", "resume.notice=aws")
    with serve_metadata() as (metadata, address), inside(tmp_path):
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
        metadata.interrupt()
        ran = command(*words)
        assert ran.code == 75, ran.err
        assert "AWS will terminate this machine at 2026-01-02T03:04:05Z" in ran.err
        assert "go on with:" in ran.err
        metadata.answers.clear()
        assert command(*words, "--resume").code in (0, 3)
        assert not noted(Path("runs/one"))
    assert read_json(tmp_path / "runs/one/plan.json")["contract"]["resume"]["grace_seconds"] == 120


def test_a_machine_of_no_cloud_is_said_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path)
    monkeypatch.setenv("GCE_METADATA_HOST", "127.0.0.1:1")
    with inside(tmp_path):
        ran = command("train", "small.yaml", "--run", "one", "--set", "resume.notice=gcp")
        assert ran.code in (0, 3), ran.err
        assert "whether this machine will be taken away is not known" in ran.err
        (note,) = noted(Path("runs/one"))
    assert "127.0.0.1:1 does not answer" in note


def test_a_cloud_that_is_misspelt_is_no_file(tmp_path: Path) -> None:
    write_project(tmp_path)
    with inside(tmp_path):
        ran = command("train", "small.yaml", "--set", "resume.notice=amazon")
    assert ran.code == 2
    assert "resume.notice" in ran.err


def test_looks_go_on_where_one_fails_and_end_with_the_block() -> None:
    source, flag, woken = FakeNotices(), StopFlag(), threading.Event()
    watch = NoticeWatch(source, flag, woken.set)
    source.down = True
    assert not watch.look()
    thread = threading.Thread(target=watch.watch, args=(0.001,))
    thread.start()
    source.down, source.told = False, "the end"
    assert woken.wait(within(10))
    thread.join(within(10))
    assert flag.why == "the end"
    quiet = NoticeWatch(FakeNotices(), StopFlag(), lambda: None)
    thread = threading.Thread(target=quiet.watch, args=(0.001,))
    thread.start()
    quiet.over()
    thread.join(within(10))
    assert not thread.is_alive()


def test_nobody_is_woken_behind_the_block() -> None:
    """What wakes is a signal, and nobody handles it any more."""
    source, flag = FakeNotices(), StopFlag()
    with stop_on_signals(flag) as wake:
        watch = NoticeWatch(source, flag, wake)
        watch.over()
    source.told = "too late"
    watch.look()
    assert not flag.is_up
    assert signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL


@pytest.mark.row("F-07")
def test_a_stop_of_which_a_library_makes_an_error_is_a_stop() -> None:
    """As pydantic does where a model is built while the signal comes."""
    flag = StopFlag()
    stopped = pytest.raises(Interrupted, match="stopped by SIGTERM before the run began")
    with stopped, stop_on_signals(flag), before_the_run(flag):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except Interrupted as error:
            raise ValueError("this model cannot be built") from error
    with pytest.raises(ValueError, match="no number"), before_the_run(StopFlag()):
        raise ValueError("no number")
