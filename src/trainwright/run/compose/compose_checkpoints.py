"""Builds the checkpointing of a network: destination, retention, schedule. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from trainwright.checkpoint.background_save import BackgroundCheckpoints
from trainwright.checkpoint.copies.checkpoint_copies import MirroredCheckpoints, Places
from trainwright.checkpoint.copies.copied_file_sets import open_sets
from trainwright.checkpoint.copies.run_copies import OWN, RunCopies
from trainwright.checkpoint.keeping.pins import read_pins
from trainwright.checkpoint.keeping.retention import at_any_step
from trainwright.checkpoint.states.copy_fence import Fence
from trainwright.checkpoint.storages.local_storage import LocalStorage
from trainwright.checkpoint.storages.object_storage import open_objects
from trainwright.checkpoint.store import Checkpoints, CheckpointStore
from trainwright.checkpoint.store_calls import tolerate_failures
from trainwright.contract.sections.metric import METRICS, Direction
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.training import Training
from trainwright.core.progress import Progress
from trainwright.distributed.strategy import Strategy
from trainwright.engine.job import Every
from trainwright.engine.save_interval import ByClock, Due, FirstOf
from trainwright.engine.shared_by_ranks import with_shards
from trainwright.engine.stopping.rank_requests import RankRequests
from trainwright.planner.plan import Plan
from trainwright.run.compose.compose_step import longest_rollback
from trainwright.run.compose.schedule_length import Length
from trainwright.run.folder.interruption import saves_recorded
from trainwright.run.run_context import RunContext, build_spacing
from trainwright.tracking.clock import SystemClock
from trainwright.tracking.events import Event, Noted, Observer
from trainwright.tracking.run_folder import RunFolder


def _build_checkpoints(plan: Plan, where: Path, length: Length, rollback_steps: int) -> Checkpoints:
    """Checkpoints with the retention of the contract."""
    training = plan.contract.training
    section = training.checkpointing
    return Checkpoints(
        where,
        section.keep_top_k,
        direction_of(training),
        section.keep_last,
        section.keep_every_n_steps,
        _planned(plan, length),
        rollback_steps,
    )


def _planned(plan: Plan, length: Length) -> Callable[[int], bool]:
    """Steps at which a run saves on schedule: any, if by the clock."""
    if plan.contract.training.checkpointing.save_every_minutes != "off":
        return at_any_step
    by_step = _by_step(plan, length)

    def planned(step: int) -> bool:
        at = Progress(step=step)
        return step == 0 or length.validate_every.due(at) or by_step.due(at)

    return planned


@final
@dataclass(frozen=True, slots=True)
class SaveParts:
    """Checkpointing of a run: `store`, over the local `checkpoints`, and its schedule, with the
    `observers` that it needs. `copying` exits when the last copy is made; `fence` is where a step
    waits before it updates."""

    checkpoints: Checkpoints
    store: CheckpointStore
    due: Due
    observers: tuple[Observer, ...]
    copying: AbstractContextManager[object]
    fence: Fence


def build_saving(
    plan: Plan,
    run: RunContext,
    length: Length,
    strategy: Strategy,
    requests: RankRequests,
    tell: Callable[[Event], None],
) -> SaveParts:
    """Build the checkpointing of a contract: background or not, copied or not, by steps and by the
    clock of rank 0. `tell` receives notices about copies."""
    section = plan.contract.training.checkpointing
    rollback_steps = longest_rollback(strategy.device)
    there = _build_checkpoints(plan, run.folder.checkpoints, length, rollback_steps)
    there.bind(run.identity, saves_recorded(run.folder) if run.goes_on else "")
    store = with_shards(there, strategy)
    if section.on_failure == "continue":
        store = tolerate_failures(store)
    fence = Fence()
    if section.asynchronous:
        store = BackgroundCheckpoints(store, fence)
    copying: AbstractContextManager[object] = nullcontext()
    if section.remote != "off":
        store = copying = _mirrored(section.remote, store, there, run, tell)
    by_step = _by_step(plan, length)
    if section.save_every_minutes == "off":
        return SaveParts(there, store, by_step, (), copying, fence)
    by_clock = ByClock(build_spacing(section), SystemClock())
    due = FirstOf([by_step, requests.clocked_save(by_clock)])
    return SaveParts(there, store, due, (by_clock,), copying, fence)


def _mirrored(
    remote: str,
    store: CheckpointStore,
    local: Checkpoints,
    run: RunContext,
    tell: Callable[[Event], None],
) -> MirroredCheckpoints:
    """Store with copies; those of each run are under its own name."""
    away = open_objects(f"{remote.rstrip('/')}/{run.folder.full_name}")
    places = Places(
        local=local,
        here=LocalStorage(run.folder.checkpoints),
        remote=local.elsewhere(away),
        away=away,
        pins=partial(read_pins, run.folder.checkpoints),
        files=_copies(remote, run),
    )

    def say(text: str) -> None:
        tell(Noted("remote", text))

    return MirroredCheckpoints(store, places, say, goes_on=run.goes_on)


def _copies(remote: str, run: RunContext) -> RunCopies:
    """Copies of the run's files, also when one of its folds or seeds is trained."""
    folder, part = run.folder, OWN
    if folder.called:
        part = f"{folder.path.parent.name}/{folder.name}"
        folder = RunFolder(folder.path.parents[1])
    return RunCopies(folder, open_sets(remote, folder.name), run.identity.of_part("").lineage, part)


def _by_step(plan: Plan, length: Length) -> Due:
    """Schedule by steps and tokens; at validations if the contract leaves the steps open."""
    path = "training.checkpointing.save_every_n_steps"
    if any(choice.path == path for choice in plan.choices):
        return FirstOf([length.validate_every, length.save_at])
    steps = settled(plan.contract.training.checkpointing.save_every_n_steps)
    return FirstOf([Every(steps), length.save_at])


def direction_of(training: Training) -> Direction:
    """Direction in which the value that ranks checkpoints improves."""
    ranked_by, stopping = training.checkpointing.rank_by, training.early_stopping
    if stopping != "off" and ranked_by == stopping.metric:
        return settled(stopping.mode)
    fact = METRICS.get(ranked_by.removeprefix("val_"))
    return "min" if fact is None else fact.direction
