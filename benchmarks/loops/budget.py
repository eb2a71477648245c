"""Where the microseconds of our step go.

What surrounds the step is timed part by part, each called by itself many times; the least of the
repeats counts. The step itself is taken apart by elimination: loops that do less and less of it
take turns.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import final

import torch
from torch import nn

from loops.gate import Gate
from loops.measure import Contender, in_turns, quiet
from loops.ours import our_job, ours_clipping
from loops.workloads import DEVICE, Setting, make
from trainwright.core.progress import Progress
from trainwright.data.loading.feed import StepBatches
from trainwright.engine.guards.step_guard import Judgement, Keep
from trainwright.engine.job import Job, Never, NoProbes
from trainwright.engine.loop import fit
from trainwright.engine.signals.custom_signals import OwnSignals
from trainwright.engine.signals.telemetry import Windows
from trainwright.engine.stopping.stop_rules import StepLimit
from trainwright.objective.build_objective import build_loss
from trainwright.objective.losses import Supervised
from trainwright.optim.fused_adam import stepping_of
from trainwright.run.compose.compose_feed import class_rows
from trainwright.tracking.events import Observer, Observers, StepKept, StepOutcome
from trainwright.tracking.signals import SignalRecorder

CALLS = 500
FP32 = Setting("fp32", 1)
NO_WINDOWS = ("tracking.windows=off",)

WHOLE = "everything"
OWN_NAMES = tuple(f"number_{index}" for index in range(10))

BEGUN = 50
"""Steps after which a job is in the middle of its run: those of a window."""

NAMES = {
    "EventLog": "event log",
    "SignalRecorder": "signals, a line a step",
    "Windows": "windows, a line in 50 steps",
    "ConsoleProgress": "progress on the screen",
}

Costs = list[tuple[str, float]]
"""Parts of a step with the seconds that they take."""


def budget(work: str, rounds: int) -> Costs:
    """The parts of a step of this workload in fp32 without accumulation; the last are what the
    parts leave unexplained, the whole, and what ten named numbers cost beside it."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        job = our_job(work, FP32, Open(Path(folder)), clips=True)
        around = list(_around(job, rounds))
        own = _own_signals(job, rounds)
    rows = in_turns(work, FP32, LADDER, rounds)
    forward, backward, update, step, whole = (min(row.seconds) for row in rows)
    within: Costs = [
        ("forward and loss", forward),
        ("backward", backward - forward),
        ("update by the fused kernel", update - backward),
        ("gradient norm, checks, clipping and outcome", step - update),
    ]
    rest = whole - step - sum(seconds for _, seconds in around)
    return [
        *within,
        *around,
        ("what is left", rest),
        (WHOLE, whole),
        ("beside it: ten signals of one's own", own),
    ]


@final
class Open:
    """A gate at which nobody waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.micro_batches = 0

    def watch(self, model: nn.Module, applied: Callable[[], int]) -> None:
        """Nobody looks."""

    def passed(self, micro_batches: int = 1) -> None:
        """Go on."""


def _around(job: Job, rounds: int) -> Iterator[tuple[str, float]]:
    """The parts around the step, on a job that has begun."""
    begun = fit(replace(job, stop_rules=(*job.stop_rules, StepLimit(BEGUN)))).progress
    least = partial(_least, repeats=4 * rounds, calls=CALLS)
    yield "feed", least(job.feed.next_step)
    work = job.feed.next_step()
    yield "knobs", sum(least(partial(knob, begun)) for knob in job.knobs)
    outcome = job.step(work)
    yield "guard", least(partial(job.guard.judge, outcome))
    yield "stop rules", sum(least(partial(rule.reason, begun)) for rule in job.stop_rules)
    made = Made(work, outcome)
    bare = replace(job, feed=made, step=made, guard=made, knobs=(), observers=())
    bare = replace(bare, outcome_observers=(), probes=NoProbes())
    alone = replace(bare, stop_rules=(StepLimit(CALLS),), validate_every=Never())
    yield "the loop itself", _least(lambda: fit(alone), repeats=4 * rounds, calls=1) / CALLS
    events = [
        StepKept(begun._replace(step=begun.step + number), outcome)
        for number in range(1, CALLS + 1)
    ]
    for observer in _each(job.observers):
        yield _name(observer), least(_telling(observer, events))
        if isinstance(observer, Windows):
            yield "norms of one step in a window", _measured(job, observer, work, least)


def _own_signals(job: Job, rounds: int) -> float:
    """What it costs to name ten numbers, which are tensors as an objective has them, and to record
    them in `signals.jsonl` and windows."""
    least = partial(_least, repeats=4 * rounds, calls=CALLS)
    own, outcome = OwnSignals(), job.step(job.feed.next_step())
    numbers = [(name, torch.rand((), device=DEVICE)) for name in OWN_NAMES]

    def name_all() -> StepOutcome:
        for name, number in numbers:
            own(name, number)
        return outcome._replace(own=own.take())

    spent = least(name_all)
    at = Progress(BEGUN, BEGUN, 0, 0)
    for observer in _each(job.observers):
        if isinstance(observer, SignalRecorder | Windows):
            for sign, told in ((-1, outcome), (1, name_all())):
                events = [StepKept(at._replace(step=n + 1), told) for n in range(CALLS)]
                spent += sign * least(_telling(observer, events))
    return spent


def _name(observer: Observer) -> str:
    name = type(observer).__name__
    return NAMES.get(name, name)


def _telling(observer: Observer, events: Sequence[StepKept]) -> Callable[[], None]:
    each = itertools.cycle(events)
    return lambda: observer.observe(next(each))


def _each(observers: Sequence[Observer]) -> Iterator[Observer]:
    """Observers, also those that stand in others."""
    for observer in observers:
        yield from observer._observers if isinstance(observer, Observers) else (observer,)


def _measured(
    job: Job, windows: Windows, work: StepBatches, least: Callable[[Callable[[], object]], float]
) -> float:
    """What the one measured step of each window costs more, over the steps of the window."""

    def make() -> None:
        with job.probes.around(work):
            job.step(work)

    windows.closes_next = True
    measured = least(make)
    windows.closes_next = False
    return (measured - least(make)) / BEGUN


@final
class Made:
    """A feed, a step and a guard that are done already."""

    def __init__(self, work: StepBatches, outcome: StepOutcome) -> None:
        self._work, self._outcome = work, outcome
        self._keep = Keep()

    def next_step(self) -> StepBatches:
        """Always the same."""
        return self._work

    def seek(self, samples: int) -> None:
        """There is nowhere to go."""

    def __call__(self, work: StepBatches) -> StepOutcome:  # noqa: ARG002
        """The outcome of a real step."""
        return self._outcome

    def judge(self, outcome: StepOutcome) -> Judgement:  # noqa: ARG002
        """It stands."""
        return self._keep


def _least(call: Callable[[], object], repeats: int, calls: int) -> float:
    """Seconds of a call: the least of the repeats."""
    spent = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(calls):
            call()
        spent.append((time.process_time() - started) / calls)
    return min(spent)


def _own_step(work: str, setting: Setting, gate: Gate) -> None:
    """Our step on one batch, without anything around it."""
    job = our_job(work, setting, gate, clips=True, extra=NO_WINDOWS)
    batches = _first_step(work, setting)
    while True:
        gate.passed()
        job.step(batches)


def _first_step(work: str, setting: Setting) -> StepBatches:
    made = make(work, setting, True)
    batch = tuple(tensor[: made.batch] for tensor in made.tensors)
    return StepBatches((batch,), batch[-1].numel(), made.batch, made.batch, 0, 0.0)


def _bare(updates: bool, goes_back: bool, work: str, setting: Setting, gate: Gate) -> None:
    """What no loop can do without, on one batch."""
    made = make(work, setting, True)
    model, optimizer = made.build()
    gate.watch(model, lambda: gate.micro_batches)
    section = made.ready.plan.contract.training.loss
    objective = Supervised(
        build_loss(section, class_rows(made.ready.prepared), torch.device(DEVICE))
    )
    ((batch,), targets, *_) = _first_step(work, setting)
    root = torch.tensor(1 / targets, device=DEVICE)
    update, parameters = stepping_of(optimizer), list(model.parameters())
    while True:
        gate.passed()
        for parameter in parameters:
            parameter.grad = None
        loss = objective(model, batch).sum
        if goes_back:
            loss.backward(root)
        if updates:
            update()


LADDER = (
    Contender("forward", partial(_bare, False, False)),
    Contender("backward", partial(_bare, False, True)),
    Contender("update", partial(_bare, True, True)),
    Contender("step", _own_step),
    Contender("everything", ours_clipping),
)


def table(costs: Costs) -> str:
    """Each part in microseconds, and its share of the whole."""
    whole = dict(costs)[WHOLE]
    lines = ["| part | µs | share |", "| --- | --- | --- |"]
    lines += [f"| {name} | {cost * 1e6:.1f} | {cost / whole:.1%} |" for name, cost in costs]
    return "\n".join(lines)
