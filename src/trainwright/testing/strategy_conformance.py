"""Conformance checks of distribution strategies.

Each check runs on every rank, at the same time, and compares what the ranks do with a single
process that computes everything. What it returns must be the same on every rank, to the last bit.
Run all of them with 1, 2 and 4 ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor, nn

from trainwright.core.progress import Progress, StopFlag
from trainwright.data.loading.batch import Batch
from trainwright.distributed.strategy import Packet, SingleProcess, Strategy
from trainwright.engine.job import Job
from trainwright.engine.loop import fit
from trainwright.engine.saving import SaveRequested
from trainwright.engine.stopping.rank_requests import RankRequests
from trainwright.engine.stopping.stop_rules import StepLimit, StopRequested, StopRule, TimeLimit
from trainwright.engine.update.oom_policy import SplitOnOutOfMemory
from trainwright.objective.losses import LossSum
from trainwright.optim.schedule import Knob
from trainwright.testing.fake_strategy import (
    NO_MEMORY,
    STEP_ROWS,
    assert_same_outcome,
    assert_same_weights,
    network_of_rank,
)
from trainwright.testing.fakes import MemoryCheckpoints, RecordingObserver
from trainwright.testing.gather_conformance import (
    check_evaluation,
    check_gather,
    check_shared_loss,
)
from trainwright.testing.trained_network import (
    RankRows,
    TrainedNetwork,
    masked_errors,
    masked_steps,
)
from trainwright.testing.training_conformance import (
    check_clipping_by_value,
    check_cut_run,
    check_other_ranks,
    check_precision,
    check_tied_weights,
)
from trainwright.testing.trap_conformance import (
    check_batch_norm,
    check_dropout,
    check_gradient_layout,
    check_order_of_sums,
    check_thawed_layers,
)
from trainwright.tracking.events import Event, Saved, StepKept, read_number

Check = Callable[[Strategy], Sequence[float]]


def check_protocol(strategy: Strategy) -> Sequence[float]:
    """Each number below the world size is the rank of one."""
    assert 0 <= strategy.rank < strategy.world_size
    _pass(strategy)
    told = strategy.reduce(Packet(0.0, 2**strategy.rank))
    assert told.targets == 2**strategy.world_size - 1
    return [strategy.world_size]


def check_update(strategy: Strategy) -> Sequence[float]:
    """The update of a single process in fp64, clipped and not, with one micro-batch in all, one and
    two a rank; every rank starts from the weights of rank 0, and rows have different numbers of
    targets."""
    told: list[float] = []
    for accumulate in (1, strategy.world_size, 2 * strategy.world_size):
        for max_norm in (math.inf, 0.3):
            ours, alone = (
                TrainedNetwork(strategy, max_norm),
                TrainedNetwork(SingleProcess(), max_norm),
            )
            for work in masked_steps(accumulate):
                outcome, expected = ours.make(work), alone.make(work)
                assert_same_outcome(outcome, expected)
                told += [read_number(outcome.loss), read_number(outcome.gradient_norm)]
            told += assert_same_weights(ours.weights(), alone.weights())
    return told


def check_uneven_targets(strategy: Strategy) -> Sequence[float]:
    """All targets of a step are those of one row, on one rank."""
    ours, alone = TrainedNetwork(strategy), TrainedNetwork(SingleProcess())
    for work in masked_steps(strategy.world_size):
        masks = [torch.zeros_like(batch["counted"]) for batch in work.micro_batches]
        filled = max(number for number, mask in enumerate(masks) if len(mask))
        masks[filled][-1] = 1.0
        pairs = zip(work.micro_batches, masks, strict=True)
        batches = [batch.with_tensors(counted=mask) for batch, mask in pairs]
        of_one_row = work._replace(micro_batches=batches, targets=int(masks[filled].sum()))
        assert_same_outcome(ours.make(of_one_row), alone.make(of_one_row))
    return assert_same_weights(ours.weights(), alone.weights())


def check_nonfinite(strategy: Strategy) -> Sequence[float]:
    """A row of one rank that makes its loss non-finite: no rank updates, and all go on alike."""
    told: list[float] = []
    for bad in (math.nan, math.inf):
        ours, alone = TrainedNetwork(strategy), TrainedNetwork(SingleProcess())
        first, second, *_ = masked_steps(strategy.world_size)
        before = ours.weights()
        *others, batch = first.micro_batches
        y, mask = batch.target.clone(), torch.ones_like(batch["counted"])
        y[-1] = bad
        targets = first.targets - int(batch["counted"].sum()) + int(mask.sum())
        batch = batch.with_tensors(target=y, counted=mask)
        poisoned = first._replace(micro_batches=[*others, batch], targets=targets)
        outcome = ours.make(poisoned)
        assert read_number(outcome.found_nonfinite) > 0
        assert not math.isfinite(read_number(outcome.loss))
        assert all(map(torch.equal, ours.weights(), before)), "a dropped update changes nothing"
        assert_same_outcome(ours.make(second), alone.make(second))
        told += assert_same_weights(ours.weights(), alone.weights())
    return told


def check_packet(strategy: Strategy) -> Sequence[float]:
    """Each number of one rank reaches all: sums of loss, targets and non-finite losses, and the
    largest of what memory, stop and save say."""
    first, last = strategy.rank == 0, strategy.rank == strategy.world_size - 1
    _pass(strategy)
    told = strategy.reduce(Packet(0.5, 3, int(last), 0, 2 if first else 0, int(last), 7 * first))
    size = strategy.world_size
    assert (told.loss, told.targets, told.nonfinite) == (0.5 * size, 3 * size, 1)
    assert (told.out_of_memory, told.stop, told.save, told.length) == (0, 2, 1, 7)
    _pass(strategy)
    told = strategy.reduce(Packet(0.0, 0, out_of_memory=5 if last else 0))
    assert told.out_of_memory == 5
    return [float(number) for number in told]


def check_out_of_memory(strategy: Strategy) -> Sequence[float]:
    """Memory that runs out on the last rank, in the forward or in the backward pass, in the first
    or in the last micro-batch: all ranks repeat the step in micro-batches of one size."""
    told: list[float] = []
    for in_backward in (False, True):
        for failing in (1, 2):
            small = _SmallMemory(strategy, failing, in_backward)
            ours, alone = TrainedNetwork(strategy, objective=small), TrainedNetwork(SingleProcess())
            events: list[Event] = []
            memory = SplitOnOutOfMemory(tell=events.append)
            ours.step.handling_memory(memory)
            for work in masked_steps(2 * strategy.world_size):
                assert_same_outcome(ours.make(work), alone.make(work))
            told += assert_same_weights(ours.weights(), alone.weights())
            assert len(events) == 1, "each rank was told, once"
            assert memory.was_split_at(STEP_ROWS[0])
            told.append(float(memory.snapshot().values["most_rows"]))
    return told


def check_exhausted_memory(strategy: Strategy) -> Sequence[float]:
    """Where no split helps one rank, none makes an update."""
    memory = SplitOnOutOfMemory("raise")
    ours = TrainedNetwork(strategy, objective=_SmallMemory(strategy, 1, False))
    ours.step.handling_memory(memory)
    before = ours.weights()
    outcome = ours.make(next(iter(masked_steps(strategy.world_size))))
    assert read_number(outcome.found_nonfinite) > 0
    assert memory.exhausted
    assert all(map(torch.equal, ours.weights(), before))
    return [read_number(outcome.found_nonfinite)]


def check_stop_on_a_signal(strategy: Strategy) -> Sequence[float]:
    """A signal that reaches only the last rank, after its third step, ends the run on all of them
    after one more step at most; a request for a checkpoint likewise."""
    flag = StopFlag()
    late = int(strategy.world_size > 1)

    def react(event: Event) -> None:
        if isinstance(event, StepKept) and strategy.rank == strategy.world_size - 1:
            if event.progress.step == 1:
                flag.ask_to_save()
            if event.progress.step == 3:
                flag.raise_flag("SIGTERM")

    requests = RankRequests(strategy)
    rules = (StepLimit(6), requests.signal(StopRequested(flag)))
    kind, steps, saved = _run(strategy, requests, rules, flag, react)
    assert (kind, steps) == ("interrupted", 3 + late)
    assert saved == [0, 1 + late, 3 + late]
    return [steps, *saved]


def check_stop_by_the_clock(strategy: Strategy) -> Sequence[float]:
    """The clock of rank 0 ends the run on all ranks; the clocks of the others do not count."""
    seconds = 0.0 if strategy.rank == 0 else 1e9
    late = int(strategy.world_size > 1)
    requests = RankRequests(strategy)
    rules = (StepLimit(6), requests.clock(TimeLimit(seconds, "the budget")))
    kind, steps, _ = _run(strategy, requests, rules, StopFlag())
    assert (kind, steps) == ("budget", late)
    ignored = 1e9 if strategy.rank == 0 else 0.0
    requests = RankRequests(strategy)
    rules = (StepLimit(3), requests.clock(TimeLimit(ignored, "the budget")))
    kind, steps, _ = _run(strategy, requests, rules, StopFlag())
    assert (kind, steps) == ("finished", 3)
    return [steps]


def check_shortened(strategy: Strategy) -> Sequence[float]:
    """A schedule is shortened to the steps that fit, by the clock of rank 0, on all ranks after
    the same step; it ends with its last rate."""
    requests, planned, made = RankRequests(strategy), 1000, list[float]()
    seconds = 1.0 if strategy.rank == 0 else 0.0
    limit = TimeLimit(
        40.0,
        "the budget",
        planned_steps=planned,
        shortens=True,
        clock=lambda: seconds * len(made),
    )

    def note(progress: Progress) -> None:
        made.append(limit.map_to_plan(progress.step))

    kind, steps, _ = _run(strategy, requests, (requests.clock(limit),), StopFlag(), knobs=(note,))
    assert (kind, steps) == ("budget", len(made))
    assert made[:5] == [0, 1, 2, 3, 4]
    assert made[-1] == planned - 1
    return made


CHECKS: Mapping[str, Check] = {
    "protocol": check_protocol,
    "update": check_update,
    "uneven targets": check_uneven_targets,
    "nonfinite": check_nonfinite,
    "clipping by value": check_clipping_by_value,
    "tied weights": check_tied_weights,
    "precision": check_precision,
    "resume": check_cut_run,
    "other ranks": check_other_ranks,
    "gradient layout": check_gradient_layout,
    "thawed layers": check_thawed_layers,
    "order of sums": check_order_of_sums,
    "batch norm": check_batch_norm,
    "dropout": check_dropout,
    "packet": check_packet,
    "gather": check_gather,
    "shared loss": check_shared_loss,
    "evaluation": check_evaluation,
    "out of memory": check_out_of_memory,
    "exhausted memory": check_exhausted_memory,
    "stop on a signal": check_stop_on_a_signal,
    "stop by the clock": check_stop_by_the_clock,
    "shortened": check_shortened,
}
"""All checks by name."""


@final
class _SmallMemory:
    """An objective for which memory does not suffice on the last rank, at one of its passes."""

    def __init__(self, strategy: Strategy, failing: int, in_backward: bool) -> None:
        self._fails_here = strategy.rank == strategy.world_size - 1
        self._failing = failing
        self._in_backward = in_backward
        self._passes = 0

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        self._passes += 1
        loss = masked_errors(model, batch)
        if self._fails_here and self._passes == self._failing:
            if not self._in_backward:
                raise RuntimeError(NO_MEMORY)
            loss.sum.register_hook(_fail)  # type: ignore[no-untyped-call]
        return loss


def _fail(_: Tensor) -> None:
    raise RuntimeError(NO_MEMORY)


@final
class _Reacting:
    def __init__(self, react: Callable[[Event], None]) -> None:
        self.observe = react


def _run(
    strategy: Strategy,
    requests: RankRequests,
    rules: tuple[StopRule, ...],
    flag: StopFlag,
    react: Callable[[Event], None] = lambda _: None,
    knobs: tuple[Knob, ...] = (),
) -> tuple[str, int, list[int]]:
    """How a run ended, after which step, and the steps that it saved."""
    trained, seen = TrainedNetwork(strategy), RecordingObserver()
    job = Job(
        model=trained.model,
        feed=RankRows(strategy, 2 * strategy.world_size),
        step=trained.step.carrying(requests),
        stop_rules=rules,
        knobs=knobs,
        observers=(seen, _Reacting(react)),
        checkpoints=MemoryCheckpoints(),
        checkpoint_every=requests.signalled_save(SaveRequested(flag)),
    )
    ended = fit(job)
    saved = [event.progress.step for event in seen.events if isinstance(event, Saved)]
    return ended.kind, ended.progress.step, saved


def _pass(strategy: Strategy) -> None:
    """A forward and backward pass, after which packets may be exchanged."""
    model = strategy.wrap(network_of_rank(0))
    with strategy.micro_batch(model, last=True):
        model(torch.ones(1, 3, dtype=torch.float64)).sum().backward()
