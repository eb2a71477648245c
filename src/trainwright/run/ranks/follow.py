"""Trainings on several ranks: what the first tells the others, and what those do. Needs torch."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import final

import torch

from trainwright.contract.document import Contract
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Interrupted, PeerLost
from trainwright.core.files import Json
from trainwright.core.progress import StopFlag
from trainwright.core.threads import own_threads, thread_limit, usable_cores
from trainwright.data.mapped_values import open_values, write_values
from trainwright.data.types import Prepared
from trainwright.distributed.link import Link
from trainwright.distributed.measure_link import measure_link
from trainwright.distributed.process_group import ProcessGroup, find_group
from trainwright.engine.loop import fit
from trainwright.model.families import library_family
from trainwright.model.library_family import LibraryJob, RowShare
from trainwright.planner.plan import Plan
from trainwright.run.compose.compose_job import compose
from trainwright.run.compose.compose_step import kernels
from trainwright.run.library_fit import job_of
from trainwright.run.run_context import RunContext
from trainwright.run.screen import StreamScreen
from trainwright.run.supervise.preemption import stop_on_signals
from trainwright.tracking.identity import Identity
from trainwright.tracking.run_folder import RunFolder


@final
@dataclass(frozen=True)
class RankTraining:
    """A training that all ranks make: its rows and plan, and its run, which the first writes."""

    section: ModelSection
    plan: Plan
    prepared: Prepared
    run: Path
    called: str
    goes_on: bool
    identity: Identity


@contextmanager
def lead_ranks(
    section: ModelSection,
    plan: Plan,
    prepared: Prepared,
    run: RunContext,
    tracker: Mapping[str, Json] = MappingProxyType({}),
) -> Iterator[None]:
    """Tell the other ranks, if there are some, to make the training of the block as well: its rows
    lie in the run's folder meanwhile, which all ranks see. `tracker` is that of a library that
    exchanges its sums itself."""
    group = find_group()
    if group == "none" or plan.contract.distributed.strategy == "single":
        yield
        return
    folder = run.folder
    rows = folder.path.absolute() / "ranks" / "rows"
    shutil.rmtree(rows, ignore_errors=True)
    training = RankTraining(
        section,
        plan,
        prepared,
        folder.path.absolute(),
        folder.called,
        run.goes_on,
        run.identity,
    )
    write_values(training, rows)
    group.watch.log_to(folder.path / "ranks" / "0.log")
    group.tell({"rows": str(rows), "tracker": dict(tracker)})
    try:
        yield
    finally:
        shutil.rmtree(rows, ignore_errors=True)


@contextmanager
def share_trees(
    section: ModelSection, plan: Plan, prepared: Prepared, run: RunContext, job: LibraryJob
) -> Iterator[LibraryJob]:
    """The job of growing trees on the share of rows of this rank, the first; the others grow the
    same trees on theirs, inside the block."""
    group = find_group()
    assert group != "none", "the number of ranks has been checked"
    family = library_family(section)
    with (
        family.start_tracker(group.world_size, os.environ["MASTER_ADDR"]) as tracker,
        lead_ranks(section, plan, prepared, run, tracker),
    ):
        yield _share_job(job, group, tracker)


def measure_link_of_ranks() -> Link:
    """The link between the ranks, which all of them measure now."""
    group = find_group()
    assert group != "none", "a process alone sends nothing"
    group.tell({"measure": "link"})
    return measure_link(_find_device())


def follow(group: ProcessGroup) -> None:
    """Make the trainings that the first rank tells, until it ends.

    Raises:
        PeerLost: another rank has died. Interrupted: all were stopped, and can be resumed.
    """
    flag = StopFlag()
    is_interrupted = False
    with stop_on_signals(flag):
        while (order := group.next_order()) is not None:
            if "measure" in order:
                measure_link(_find_device())
                continue
            training: RankTraining = open_values(Path(order["rows"]))
            log = training.run / "ranks" / f"{group.rank}.log"
            _log_to(log)
            group.watch.log_to(log)
            try:
                is_interrupted = _train(training, group, order["tracker"], flag)
            except PeerLost as lost:
                # The first rank may have ended with an error that its user has seen.
                try:
                    has_ended = group.next_order() is None
                except PeerLost:
                    has_ended = False
                if not has_ended:
                    raise lost from None
                return
    if is_interrupted:
        raise Interrupted("stopped with the other ranks")


def _find_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _train(
    training: RankTraining, group: ProcessGroup, tracker: Mapping[str, Json], flag: StopFlag
) -> bool:
    """Train as the first rank does, and write nothing; was it stopped?"""
    folder = RunFolder(training.run, training.called)
    run = RunContext(
        folder, (), StreamScreen(io.StringIO()), flag, training.goes_on, training.identity
    )
    plan = replace(training.plan, contract=_without_records(training.plan.contract))
    with own_threads(plan.contract.compute.threads), flag.watched():
        if tracker:
            job = _share_job(job_of(plan.contract, training.prepared), group, tracker)
            library_family(training.section).fit(training.section, job)
            return flag.is_up
        with kernels(plan.contract):
            composed = compose(training.section, plan, training.prepared, run)
            with closing(composed.feed):
                return fit(composed.job).kind == "interrupted"


def _share_job(job: LibraryJob, group: ProcessGroup, tracker: Mapping[str, Json]) -> LibraryJob:
    """The job on the rows of this rank, with its part of the threads of the machine."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    threads = thread_limit() or min(job.threads, max(1, usable_cores() // here))
    return replace(job, share=RowShare(group.rank, group.world_size, tracker), threads=threads)


def _without_records(contract: Contract) -> Contract:
    """The contract without what only the first rank writes."""
    checkpointing = contract.training.checkpointing.model_copy(
        update={"remote": "off", "asynchronous": False}
    )
    training = contract.training.model_copy(update={"checkpointing": checkpointing})
    tracking = contract.tracking.model_copy(update={"windows": "off", "inspect": "off"})
    return contract.model_copy(update={"training": training, "tracking": tracking})


def _log_to(path: Path) -> None:
    """Append what this process and its libraries say to a file of the run."""
    path.parent.mkdir(exist_ok=True)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
