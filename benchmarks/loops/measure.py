"""Which loops there are, whether they make the same updates, and how long their steps take."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from torch import Tensor

from loops import ours, peers, plain
from loops.gate import Gate, Lane
from loops.workloads import WORKLOADS, Setting

Run = Callable[[str, Setting, Gate], None]

CHECKED_STEPS = 4
NO_CLIPPING = 1e9
FAR = {"fp32": 0.1, "bf16": 0.35}
"""How far apart weights may be after the checked steps, as a share of how far they went: AdamW's
first updates are little more than the signs of the gradients, so that rounding shows. A wrong rate
or a wrong batch is beyond it."""


@final
@dataclass(frozen=True)
class Contender:
    """A loop with what it needs installed, and the settings that it has."""

    name: str
    run: Run
    package: str = "torch"
    only_fp32: bool = False
    only_tokens: bool = False

    def why_not(self, work: str, setting: Setting) -> str:
        """Why it cannot take part, or nothing."""
        if importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        if self.only_fp32 and (setting.precision != "fp32" or setting.accumulate > 1):
            return "has no such setting"
        if self.only_tokens and not work.startswith("gpt"):
            return "is for tokens"
        return ""


OWN = (
    Contender("plain", plain.plain),
    Contender("plain again", plain.plain),
    Contender("ours", ours.ours),
    Contender("plain, clipping", plain.plain_clipping),
    Contender("ours, clipping", ours.ours_clipping),
    Contender("nanoGPT's manner, clipping", plain.nano, only_tokens=True),
    Contender("plain, DataLoader and scheduler", plain.plain_loader),
)

PEERS = (
    Contender("Lightning, all off", peers.lightning_off, "lightning"),
    Contender("Lightning, defaults and one log", peers.lightning, "lightning"),
    Contender("transformers Trainer, defaults", peers.trainer, "transformers"),
    Contender("accelerate", peers.accelerate, "accelerate"),
    Contender("skorch, defaults", peers.skorch, "skorch", only_fp32=True),
)


@final
@dataclass(frozen=True)
class Row:
    """Seconds of a step in each round, or why there are none."""

    contender: str
    seconds: tuple[float, ...] = ()
    problem: str = ""


def measure(work: str, setting: Setting, contenders: Sequence[Contender], rounds: int) -> list[Row]:
    """All loops that can be compared with the first of `contenders`, in turns."""
    with quiet():
        problems = {one.name: one.why_not(work, setting) for one in contenders}
        able = [one for one in contenders if not problems[one.name]]
        problems |= check(work, setting, able)
        able = [one for one in able if not problems[one.name]]
    measured = {row.contender: row for row in in_turns(work, setting, able, rounds)}
    return [measured.get(one.name, Row(one.name, problem=problems[one.name])) for one in contenders]


def in_turns(
    work: str, setting: Setting, contenders: Sequence[Contender], rounds: int
) -> list[Row]:
    """All loops in turns, in a new order each round; two rounds warm up and are not counted."""
    with quiet(), started(work, setting, contenders) as lanes:
        gc.collect()
        gc.freeze()
        steps = max(1, WORKLOADS[work].steps // setting.accumulate)
        seconds: dict[str, list[float]] = {lane.name: [] for lane in lanes}
        first: dict[str, int] = {}
        draw = random.Random(0)
        for number in range(rounds + 2):
            if number == 2:
                first = {lane.name: lane.watched.applied() for lane in lanes if not lane.problem}
            # None always comes after the same other.
            for lane in draw.sample(lanes, len(lanes)):
                spent = lane.turn(steps * setting.accumulate)
                if number > 1:
                    seconds[lane.name].append(spent / steps)
        gc.unfreeze()
        return [_row(lane, seconds[lane.name], first, rounds * steps) for lane in lanes]


def _row(lane: Lane, seconds: Sequence[float], first: Mapping[str, int], steps: int) -> Row:
    """What a loop is found to have done."""
    if lane.problem:
        return Row(lane.name, problem=lane.problem)
    made = lane.watched.applied() - first[lane.name]
    if made != steps:
        return Row(lane.name, problem=f"made {made} steps in {steps}")
    return Row(lane.name, tuple(seconds))


def check(work: str, setting: Setting, contenders: Sequence[Contender]) -> dict[str, str]:
    """What is wrong with each loop: its weights after a few steps without shuffling and with an
    unreachable clipping are not those of the first."""
    exact = setting._replace(shuffle=False, clipping=NO_CLIPPING)
    with started(work, exact, contenders) as lanes:
        courses = [_course(lane, setting.accumulate) for lane in lanes]
        reference = courses[0]
        return {
            lane.name: lane.problem or _apart(reference, course, FAR[setting.precision])
            for lane, course in zip(lanes, courses, strict=True)
        }


def _course(lane: Lane, accumulate: int) -> dict[int, Tensor]:
    """The weights after each number of applied steps."""
    course: dict[int, Tensor] = {}
    for _ in range(CHECKED_STEPS + 2):
        if lane.problem:
            break
        course.setdefault(lane.watched.applied(), lane.watched.weights())
        lane.turn(accumulate)
    return course


def _apart(reference: dict[int, Tensor], course: dict[int, Tensor], far: float) -> str:
    steps = max(step for step in course if step in reference)
    if steps < CHECKED_STEPS:
        return f"made {max(course)} steps where {CHECKED_STEPS} were to be checked"
    went = (reference[steps] - reference[0]).norm()
    apart = float((course[steps] - reference[steps]).norm() / went)
    if apart <= far:
        return ""
    return f"its weights are {apart:.2g} of the way apart after {steps} steps"


@contextlib.contextmanager
def started(work: str, setting: Setting, contenders: Sequence[Contender]) -> Iterator[list[Lane]]:
    """Every loop before its first batch."""
    lanes: list[Lane] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, one in enumerate(contenders):
                own = Path(folder) / str(number)
                own.mkdir()
                lanes.append(Lane(one.name, partial(one.run, work, setting), own))
            yield lanes
        finally:
            for lane in lanes:
                lane.close()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What loops print goes nowhere."""
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def ratios(rows: Sequence[Row], row: Row) -> tuple[float, float]:
    """The ratio of the minima to the first row, and the median of the rounds' ratios."""
    plain = rows[0].seconds
    pairs = zip(row.seconds, plain, strict=True)
    return min(row.seconds) / min(plain), statistics.median(ours / theirs for ours, theirs in pairs)
