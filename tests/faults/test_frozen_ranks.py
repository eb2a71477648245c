"""A rank that is frozen is named with the stacks of all, and one that is slow is waited for."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from deadlines import within
from faults.ranks import RankTrial
from faults.tiers import in_test
from faults.trials import CANARIES, state_of
from faults.zygote import Zygote

pytestmark = [pytest.mark.torch, pytest.mark.row("F-37")]

Figure = Callable[..., None]
SILENT, STILL = 4.0, 12.0
ENDED = -signal.SIGVTALRM


@pytest.fixture
def trial(zygote: Zygote, tmp_path: Path) -> RankTrial:
    how = {"frozen_after": (within(SILENT), within(STILL))}
    return RankTrial(zygote, CANARIES["table"], tmp_path / "ranks", how=how)


def stacks(trial: RankTrial, rank: int) -> str:
    return (trial.run.path / "ranks" / f"{rank}.log").read_text()


@pytest.mark.parametrize("rank", in_test(2, [0, 1]))
def test_a_stopped_process_is_named_and_ended(
    rank: int, zygote: Zygote, trial: RankTrial, tmp_path: Path, figure: Figure
) -> None:
    children = trial.start_all("rank0:step.done:*:delay=0.3")
    until = time.monotonic() + within(60)
    while not list(trial.run.checkpoints.glob("step-0000000005")):
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(children[rank].pid, signal.SIGSTOP)
    deaths = trial.wait_all(children)
    assert deaths[rank].code == ENDED, deaths
    assert deaths[1 - rank].code == 16, deaths
    said = f"rank {rank} (process {children[rank].pid}) has given no sign for"
    assert deaths[-1].output.count(said) == 1, deaths[-1].output
    for log in (stacks(trial, 0), stacks(trial, 1)):
        assert "most recent call first" in log
        assert "run_training" in log or "in fit" in log
    figure(frozen_ranks_named=1)


@pytest.mark.extended
def test_a_library_that_holds_the_interpreter_is_named(trial: RankTrial) -> None:
    trial.how = {**(trial.how or {}), "dies_at": 2 * 106 + 2 * 32, "dies_by": "hold"}
    deaths = trial.wait_all(trial.start_all(), 120)
    assert [death.code for death in deaths] == [16, ENDED], deaths
    assert "rank 1 (process" in deaths[0].output
    assert "has given no sign for" in deaths[0].output
    assert "_hold_interpreter_on_rank_1" in stacks(trial, 1)


@pytest.mark.extended
def test_a_rank_that_stands_still_is_named_with_its_line(
    trial: RankTrial, tmp_path: Path, zygote: Zygote
) -> None:
    deaths = trial.wait_all(trial.start_all("rank1:step.fwd:9:delay=10000"), 120)
    assert [death.code for death in deaths] == [16, ENDED], deaths
    assert "rank 1 (process" in deaths[0].output
    assert "has stood still" in deaths[0].output
    assert "core/faultpoints.py:" in deaths[0].output
    assert "in strike" in stacks(trial, 1)
    trial.ends_well()
    whole = RankTrial(zygote, CANARIES["table"], tmp_path / "whole")
    whole.ends_well()
    assert trial.state() == state_of(whole.run)


@pytest.mark.extended
@pytest.mark.parametrize(
    "slow",
    [
        "rank0:ckpt.fsync:3:delay=",
        "rank0:ckpt.snapshot:2:delay=",
        "rank1:eval:1:delay=",
        "rank1:data.next:4:delay=",
        "rank0:judge:1:delay=",
    ],
)
def test_slow_work_of_one_rank_is_waited_for(slow: str, trial: RankTrial) -> None:
    """Longer than a process may be silent."""
    deaths = trial.wait_all(trial.start_all(f"{slow}{within(2 * SILENT)}"), 120)
    assert {death.code for death in deaths} <= {0, 3}, deaths
    assert "rank" not in deaths[0].output
