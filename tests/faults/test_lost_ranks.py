"""Two ranks, one of which is killed, gets a signal or fails: all end together, and the run goes on
with the same bits."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from comparing import differences
from deadlines import within
from faults.ranks import RankTrial
from faults.tiers import also_slow, times
from faults.trials import CANARIES, COUNTING, Reference, read_journal, state_of
from faults.zygote import Zygote, kill
from trainwright.core.faultpoints import FAULT_POINTS
from trainwright.core.files import read_json
from trainwright.tracking.event_log import read_events

pytestmark = pytest.mark.torch

Figure = Callable[..., None]
References = Callable[[str], Reference]
Trials = Callable[..., RankTrial]

NOT_REACHED = {"tree", "rollback", "data.worker", "ckpt.aside", "report"}
NOT_REACHED |= {point for point in FAULT_POINTS if point.startswith("copy.")}
AFTER_A_START = {"ckpt.load", "resume"}
POINTS = sorted(FAULT_POINTS.keys() - NOT_REACHED - AFTER_A_START)
OF_FOLLOWERS = ["step.sched", "step.fwd", "step.bwd", "step.opt", "step.done"]
OF_FOLLOWERS += ["data.next", "eval", "ckpt.snapshot"]
KILLS = also_slow(
    [(1, "step.bwd"), (0, "ckpt.write"), (1, "eval")],
    [(0, point) for point in POINTS if point != "ckpt.write"]
    + [(1, point) for point in OF_FOLLOWERS if point not in ("step.bwd", "eval")],
)


@pytest.fixture(scope="module")
def reference(zygote: Zygote, tmp_path_factory: pytest.TempPathFactory) -> References:
    """The unbroken run of two ranks on a canary, made once."""

    @cache
    def make(name: str) -> Reference:
        folder = tmp_path_factory.mktemp("unbroken-ranks") / name
        points = folder / "points.json"
        whole = RankTrial(zygote, CANARIES[name], folder)
        began = time.monotonic()
        children = whole.start_all(COUNTING, counting=points)
        deaths = whole.wait_all(children)
        assert deaths[0].code in (0, 3), deaths[0].output
        (attempt,) = read_journal(folder / "journal.txt")
        counts = {rank: read_json(points.with_suffix(f".{rank}")) for rank in range(whole.ranks)}
        joined = {f"rank{r}:{p}": n for r, of_rank in counts.items() for p, n in of_rank.items()}
        seconds = time.monotonic() - began
        return Reference(state_of(whole.run), attempt.steps, joined, seconds)

    return make


@pytest.fixture
def trial(zygote: Zygote, tmp_path: Path) -> Trials:
    """A new run of a canary on two ranks."""

    def lay(name: str, number: int = 0, ranks: int = 2, words: tuple[str, ...] = ()) -> RankTrial:
        folder = tmp_path / f"{name}-{number}"
        return RankTrial(zygote, CANARIES[name], folder, words=words, ranks=ranks)

    return lay


@pytest.mark.row("F-01", "F-36")
@pytest.mark.parametrize(("rank", "point"), KILLS)
def test_a_rank_is_killed_at_a_point(
    rank: int, point: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference("text")
    broken = trial("text")
    nth = whole.nth(f"rank{rank}:{point}", random.Random(f"{rank} {point}"))
    broken.loses(rank, f"{point}:{nth}:kill")
    broken.ends_well()
    broken.check(whole)
    figure(kills=1, components_that_differ=0)


@pytest.mark.slow
@pytest.mark.row("F-02")
@pytest.mark.parametrize("canary", ["table", "text"])
def test_ranks_are_killed_at_random_times(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    draw = random.Random(f"{canary} ranks")
    broken = trial(canary)
    kills = 0
    for number in range(times(4, 40)):
        children = broken.start_all()
        time.sleep(draw.uniform(0, 0.8 * whole.seconds))
        kill(children[draw.randrange(2)])
        time.sleep(within(2))
        for child in children:  # as torchrun does: one that had not met the other waits for it
            kill(child)
        codes = {death.code for death in broken.wait_all(children)}
        kills += -signal.SIGKILL in codes
        assert codes <= {-signal.SIGKILL, 16, 0, 3}, codes
        if 0 in codes or 3 in codes:
            broken.ends_well()
            broken.check(whole)
            broken = trial(canary, number + 1)
    broken.ends_well()
    broken.check(whole)
    figure(kills=kills, components_that_differ=0)


@pytest.mark.row("F-07", "F-09")
@pytest.mark.parametrize(
    ("rank", "moment"),
    also_slow(
        [(1, "step.bwd:7"), (0, "ckpt.write:30")],
        [(0, "start:1"), (0, "step.fwd:5"), (1, "data.next:2"), (1, "eval:1"), (0, "judge:1")],
    ),
)
def test_a_signal_to_one_rank_stops_all_at_one_step(
    rank: int, moment: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference("text")
    stopped = trial("text")
    deaths = stopped.wait_all(stopped.start_all(f"rank{rank}:{moment}:term"))
    assert deaths[0].code == 75, deaths[0].output
    assert deaths[1].code in (0, 75), deaths[1].output
    assert "Traceback" not in deaths[1].output
    stopped.ends_well()
    stopped.check(whole, lost=0)
    figure(phases=1, most_steps_lost=0)


@pytest.mark.extended
@pytest.mark.row("F-09")
def test_a_signal_to_all_ranks_stops_them_at_one_step(reference: References, trial: Trials) -> None:
    stopped = trial("text")
    children = stopped.start_all("step.done:*:delay=0.1")
    while not stopped.run.signals.exists():
        time.sleep(0.02)
    for child in children:
        os.kill(child.pid, signal.SIGTERM)
    deaths = stopped.wait_all(children)
    assert [death.code for death in deaths] == [75, 75], deaths[0].output
    stopped.ends_well()
    stopped.check(reference("text"), lost=0)


@pytest.mark.extended
@pytest.mark.row("F-15")
def test_the_number_of_ranks_changes_and_the_steps_do_not(
    reference: References, trial: Trials
) -> None:
    """Two ranks, one, and two: the micro-batches of a step are the same, and so are the weights;
    one process sums the losses that it records in another order."""
    whole = reference("table")
    record = ("--set", "resume.numerics_changed=record")
    changing = trial("table", words=record)
    changing.loses(1, "step.done:7:kill")
    changing.ranks = 1
    changing.words = (*record, "--set", "training.gradient_accumulation_steps=2")
    changing.dies("step.done:6:kill")
    changing.ranks, changing.words = 2, record
    changing.ends_well()
    differs = differences(changing.state(), whole.state)
    assert set(differs) <= {"guard values", "watch values", "windows values", "signal loss"}


@pytest.mark.extended
@pytest.mark.row("F-20")
def test_a_flipped_bit_sends_both_ranks_to_the_checkpoint_before(
    reference: References, trial: Trials, figure: Figure
) -> None:
    broken = trial("table")
    broken.loses(1, "step.done:14:kill")
    newest = max(broken.run.checkpoints.glob("step-*")) / "model.safetensors"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 4
    newest.write_bytes(data)
    broken.ends_well()
    broken.check(reference("table"), lost=10, aside=1)
    figure(bits_flipped=1, bits_unseen=0)


@pytest.mark.row("F-39")
@pytest.mark.parametrize(
    ("fault", "code"),
    also_slow(
        [("rank1:ckpt.snapshot:2:raise", 16)],
        [("rank0:ckpt.fsync:9:enospc", 13), ("rank0:ckpt.write:9:raise", 1)],
    ),
)
def test_an_error_of_one_rank_in_a_save_ends_all(
    fault: str, code: int, reference: References, trial: Trials
) -> None:
    failing = trial("table")
    deaths = failing.wait_all(failing.start_all(fault))
    assert deaths[0].code == code, deaths[0].output
    names = {
        event["checkpoint"] for event in read_events(failing.run.events) if "checkpoint" in event
    }
    assert all((failing.run.checkpoints / name).is_dir() for name in names)
    failing.ends_well()
    failing.check(reference("table"))


@pytest.mark.extended
@pytest.mark.row("F-40")
def test_ranks_that_do_not_fit_together_are_refused(trial: Trials) -> None:
    wrong = trial("table")
    children = wrong.start_all(words=("--set", "distributed.num_gpus=3"))
    deaths = wrong.wait_all(children)
    assert [death.code for death in deaths] == [2, 0], deaths[0].output
    assert "the processes that are to train together are not there" in deaths[0].output


@pytest.mark.extended
@pytest.mark.row("F-40")
def test_a_rank_that_starts_late_is_waited_for(reference: References, trial: Trials) -> None:
    late = trial("table")
    children = late.start_all(seconds_between=10)
    deaths = late.wait_all(children)
    assert deaths[0].code in (0, 3), deaths[0].output
    late.check(reference("table"))


@pytest.mark.extended
@pytest.mark.row("F-40")
def test_a_port_that_is_taken_is_said(trial: Trials) -> None:
    taken = trial("table")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        children = taken.start_all(port=port)
        death = taken.zygote.wait(children[0])
        kill(children[1])  # as torchrun does
        taken.zygote.wait(children[1])
    assert death.code == 2, death.output
    assert f"port {port}" in death.output
