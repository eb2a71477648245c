"""What the machine does to a run: it freezes, its clock jumps, its memory and its disk run out.

Rows F-10, F-17, F-26 and F-32 of the fault matrix.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from comparing import differences
from faults.tiers import only, times
from faults.trials import CANARIES, Reference, Trial
from faults.zygote import kill
from trainwright.core.errors import NonFinite
from trainwright.core.files import read_json

pytestmark = pytest.mark.torch

References = Callable[[str], Reference]
Trials = Callable[..., Trial]
Figure = Callable[..., None]
GROUPS = Path("/sys/fs/cgroup/memory")
GROUP_BYTES = 32 * 2**20
CURSOR = 106 + 3 * 16
"""Of the table: its twelfth step begins there."""


@pytest.mark.row("F-10")
@pytest.mark.parametrize("canary", only(("table",), CANARIES))
def test_a_frozen_process_goes_on(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    whole = reference(canary)
    draw = random.Random(canary)
    for number in range(times(1, 4)):
        frozen = trial(canary, number)
        child = frozen.start()
        time.sleep(draw.uniform(0.1, 0.7) * whole.seconds)
        kill(child, signal.SIGSTOP)
        time.sleep(times(1, 20))
        kill(child, signal.SIGCONT)
        death = frozen.zygote.wait(child)
        assert death.code in (0, 3), death.output
        frozen.check(whole, lost=0)
    figure(freezes=times(1, 4), components_that_differ=0)


@pytest.mark.row("F-26")
@pytest.mark.parametrize("canary", only(("images",), CANARIES))
def test_a_clock_that_jumps_changes_no_bit(
    canary: str, reference: References, trial: Trials, figure: Figure
) -> None:
    jumping = trial(canary, how={"clock_jumps": True})
    jumping.dies("step.fwd:20:kill")
    jumping.ends_well()
    jumping.check(reference(canary))
    record = read_json(jumping.run.record)
    assert record["seconds"] >= 0
    assert all(attempt["seconds"] >= 0 for attempt in record["attempts"])
    figure(runs=1, components_that_differ=0)


@pytest.mark.row("F-17")
def test_a_disk_that_is_full_for_a_while_loses_no_line(
    reference: References, trial: Trials, figure: Figure
) -> None:
    full = trial("table")
    death = full.once("log.append:2:enospc,log.append:3:enospc")
    assert death.code in (0, 3), death.output
    assert "cannot record and the training goes on" in death.output
    full.check(reference("table"), lost=0)
    figure(runs=1, components_that_differ=0)


@pytest.mark.row("F-17")
def test_a_disk_that_stays_full_for_the_logs_costs_the_logs_alone(
    reference: References, trial: Trials, figure: Figure
) -> None:
    full = trial("table")
    death = full.once("log.append:*:enospc")
    assert death.code in (0, 3), death.output
    assert "cannot record and the training goes on" in death.output
    lost = differences(full.state(), reference("table").state)
    assert lost
    assert {name.partition(" ")[0] for name in lost} <= {"signal", "validation"}, lost
    figure(runs=1, components_that_differ=0)


@pytest.mark.row("F-32")
def test_python_that_finds_no_memory_ends_in_order_and_goes_on(
    reference: References, trial: Trials, figure: Figure
) -> None:
    starved = trial("table", how={"dies_at": CURSOR, "dies_by": "no memory"})
    death = starved.once()
    assert death.code == NonFinite.exit_code, death.output
    assert read_json(starved.run.record)["ending"]["state"] == "failed"
    starved.how = {}
    starved.ends_well()
    starved.check(reference("table"))
    figure(runs=1, components_that_differ=0)


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A control group that the kernel lets have 32 MiB."""
    if os.geteuid() or not (GROUPS / "memory.limit_in_bytes").exists():
        pytest.skip("needs root and a memory control group of version 1")
    group = GROUPS / f"trainwright-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(GROUP_BYTES))
        yield group
    finally:
        group.rmdir()


@pytest.mark.root
@pytest.mark.row("F-32")
@pytest.mark.parametrize("words", [(), ("--restart", "2")], ids=["alone", "supervised"])
def test_a_process_that_the_kernel_kills_for_memory_goes_on(
    words: tuple[str, ...],
    little_memory: Path,
    reference: References,
    trial: Trials,
    figure: Figure,
) -> None:
    killed = trial("table", words=words, how={"dies_at": CURSOR, "dies_by": str(little_memory)})
    death = killed.once()
    # Each attempt dies again in the same step: a supervisor gives up.
    assert death.code == (1 if words else -9), death.output
    assert death.output.count("the run died of signal 9") == (3 if words else 0)
    killed.how, killed.words = {}, ()
    killed.ends_well()
    killed.check(reference("table"))
    figure(kills_by_the_kernel=3 if words else 1, components_that_differ=0)
