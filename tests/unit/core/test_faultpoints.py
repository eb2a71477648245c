"""Fault points: what the variable switches on, and that every point stands somewhere."""

from __future__ import annotations

import errno
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from trainwright.core import faultpoints
from trainwright.core.faultpoints import (
    FAULT_POINTS,
    FaultInjected,
    FaultPoint,
    arm,
    is_armed,
    reached,
)

SOURCE = Path(__file__).resolve().parents[3] / "src" / "trainwright"


def test_nothing_waits_unless_it_is_switched_on() -> None:
    assert not is_armed()
    for point in FAULT_POINTS:
        reached(point)


def test_only_the_nth_time_and_only_that_point() -> None:
    arm("ckpt.open:2:raise")
    assert is_armed()
    reached("ckpt.open")
    reached("ckpt.write")
    with pytest.raises(FaultInjected, match=r"at ckpt\.open, time 2"):
        reached("ckpt.open")
    reached("ckpt.open")


def test_every_time_and_several_faults() -> None:
    arm("ckpt.fsync:*:delay=0,ckpt.write:*:enospc")
    for _ in range(3):
        reached("ckpt.fsync")
        with pytest.raises(OSError, match="No space left") as caught:
            reached("ckpt.write")
        assert caught.value.errno == errno.ENOSPC


@pytest.mark.parametrize("text", ["eval", "eval:x:kill", "nowhere:1:kill", "eval:1:explode"])
def test_what_cannot_be_switched_on_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="TRAINWRIGHT_FAULT"):
        arm(text)
    assert not is_armed()


@pytest.mark.parametrize("action", ["kill", "term"])
def test_the_variable_of_a_process(action: str) -> None:
    program = "from trainwright.core.faultpoints import reached; reached('eval'); print('alive')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"TRAINWRIGHT_FAULT": f"eval:1:{action}", "PYTHONPATH": str(SOURCE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    number = {"kill": signal.SIGKILL, "term": signal.SIGTERM}[action]
    assert (done.returncode, done.stdout) == (-number, "")


def test_each_point_is_described_and_stands_in_the_source() -> None:
    assert list(FAULT_POINTS) == list(get_args(FaultPoint))
    home = Path(faultpoints.__file__)
    called = {
        point
        for path in SOURCE.rglob("*.py")
        if path != home
        for point in re.findall(r'\breached\(\s*"([\w.]+)"', path.read_text(encoding="utf-8"))
        + re.findall(r'\(reached, "([\w.]+)"\)', path.read_text(encoding="utf-8"))
    }
    assert called == set(FAULT_POINTS)
