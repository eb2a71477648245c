"""`train --from RUN@STEP`: a new run that begins at a checkpoint of another one.

Order of the data and random numbers are functions of the position, and the learning rate one of the
step. So where nothing differs in the steps before the checkpoint, the new run has the bits of one
that was planned with its length and schedule from the first step on (Haegele et al. 2024,
arXiv:2405.18392, section 3: cooldowns of one long run). Needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import torch

from trainwright.checkpoint.begin_elsewhere import Origin
from trainwright.checkpoint.storages.catalog import list_checkpoints
from trainwright.contract.document import Contract
from trainwright.contract.reading.stored_contracts import with_defaults
from trainwright.contract.resumable_fields import differences, is_free
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.data.data_traits import Curriculum
from trainwright.contract.sections.training.scheduler import Swa
from trainwright.core.errors import ContractMistake, DataChanged, Mistake, Problem
from trainwright.core.files import Json, damage_in
from trainwright.core.formatting import many
from trainwright.optim.lr_schedule import Schedule, build_schedule
from trainwright.optim.plateau import Plateau
from trainwright.planner.extend_plan import Extension, with_values
from trainwright.run.compose.compose_feed import build_feed, with_workers
from trainwright.run.compose.schedule_length import length_of
from trainwright.run.folder.planned_contract import find_run, read_planned, read_started
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.request import Request
from trainwright.tracking.identity import read_identity
from trainwright.tracking.run_folder import RunFolder

_ANEW = (
    "training.num_epochs",
    "training.num_steps",
    "training.num_tokens",
    "training.stop",
    "training.scheduler",
    "training.validate_every_n_epochs",
    "training.validate_every_n_steps",
    "training.validate_every_n_tokens",
    "training.validation",
    "budget",
)
"""What the new run decides for itself: length, schedule, spacing of validations."""

_FROM = "--from"


class _Wanted(NamedTuple):
    """Run and step of `RUN@STEP`; no step is the newest."""

    folder: RunFolder
    step: int | None


def source_run(request: Request) -> RunFolder:
    """The run that a new one begins from.

    Raises:
        Mistake: there is none of this name.
    """
    return _read(request).folder


def begin_at(request: Request, ready: Ready, begun: Sequence[RunFolder]) -> Ready:
    """The plan of a run that begins at a checkpoint of another one; `begun` is a run that is to be
    resumed. Writes nothing.

    Raises:
        Mistake: there is no such checkpoint, the two runs differ before it, or this kind of
            training cannot begin there. DataChanged: they have other data.
    """
    if begun:
        raise Mistake(_begun_otherwise(begun[0]))
    wanted = _read(request)
    with damage_in(wanted.folder.plan):
        started = read_started(wanted.folder)
        before = read_planned(wanted.folder)
        for one in started.get("extensions", []):
            before = with_values(before, Extension.from_json(one).values)
    contract = ready.plan.contract
    problems = [*_not_for(contract), *_changes(wanted.folder, started, ready)]
    if problems:
        raise ContractMistake(problems)
    if started["data"] != ready.prepared.version:
        raise DataChanged(
            f"the data is not that of run {wanted.folder.name}: put its files back, or train from "
            "the first step on"
        )
    step = _step(wanted)
    _check_rates(wanted.folder, step, before, ready)
    origin = Origin(wanted.folder.path.absolute(), step, read_identity(wanted.folder).lineage)
    return replace(ready, plan=replace(ready.plan, start=origin.to_json()))


def _read(request: Request) -> _Wanted:
    name, at, step = request.start.rpartition("@")
    if not at:
        return _Wanted(find_run(request.start, request.runs), None)
    if not (step.isascii() and step.isdigit()):
        raise Mistake(
            Problem(
                "a run begins at a step of another one",
                path=_FROM,
                found=request.start,
                expected="RUN or RUN@STEP",
                fix="name a run and a step, such as long-1@2000",
            )
        )
    return _Wanted(find_run(name, request.runs), int(step))


def _step(wanted: _Wanted) -> int:
    """The step of the checkpoint."""
    steps = sorted(
        one.step for one in list_checkpoints(wanted.folder.checkpoints) if not one.abandoned
    )
    if steps and wanted.step is None:
        return steps[-1]
    if wanted.step is not None and wanted.step in steps:
        return wanted.step
    raise Mistake(
        Problem(
            f"run {wanted.folder.name} has no checkpoint to begin at",
            path=_FROM,
            found="the newest" if wanted.step is None else f"step {wanted.step:,}",
            expected=", ".join(f"{step:,}" for step in steps[-12:]) or "a run with checkpoints",
            fix="name a step that is there",
        )
    )


def _not_for(contract: Contract) -> Iterator[Problem]:
    """What depends on more than the steps before, or on the length of the run."""
    training, ramps = contract.training, contract.training.ramps
    what = "such a training cannot begin at a checkpoint of another run"
    found: list[tuple[str, bool, str]] = [
        ("model.kind", not contract.model.is_loop_trained, contract.model.kind),
        ("data.split.folds", fold_count(contract.data) > 0, "a training for each fold"),
        ("training.seeds", training.seeds > 1, f"{training.seeds} trainings"),
        ("training.refit", training.refit, "a second training"),
        ("training.average", isinstance(training.average, Swa), "a mean over a share of the run"),
        ("training.early_stopping", training.early_stopping != "off", "the best of all steps"),
    ]
    for name, ramp in (("batch", ramps.batch), ("sequence", ramps.sequence)):
        of_share = ramp != "off" and not ramp.samples
        found.append((f"training.ramps.{name}.ratio", of_share, "a share of the run"))
    sampling = contract.data.sampling
    of_share = isinstance(sampling, Curriculum) and not sampling.samples
    found.append(("data.sampling.ratio", of_share, "a share of the run"))
    for path, is_so, why in found:
        if is_so:
            fix = "switch it off in both runs"
            yield Problem(what, path, why, "one training that depends on its steps alone", fix)


def _changes(folder: RunFolder, started: Json, ready: Ready) -> Iterator[Problem]:
    """Settings of the steps before the checkpoint that are not those of the other run. What is
    still to be measured is compared when a run starts."""
    contract = ready.plan.contract
    before = with_defaults(dict(started["contract"]), contract, ready.document.contract)
    for path, old, new in differences(before, contract.model_dump(mode="json")):
        if (
            is_free(path)
            or path in ready.plan.open_paths
            or any(f"{path}.".startswith(f"{one}.") for one in _ANEW)
        ):
            continue
        yield Problem(
            f"run {folder.name} was trained with another value",
            path=path,
            found=str(new),
            expected=str(old),
            fix="write the value of that run, or train from the first step on",
            place=ready.document.source.place_of(path),
        )


def _check_rates(folder: RunFolder, step: int, before: Contract, ready: Ready) -> None:
    """Compare the learning rates of all steps before the checkpoint.

    Raises:
        Mistake: they differ.
    """
    contract = ready.plan.contract
    feeding = build_feed(with_workers(contract, 0), ready.prepared, torch.device("cpu"))
    with closing(feeding) as feed:
        old = _rates(before, length_of(before, feed).scheduled_steps)
        length = length_of(contract, feed)
        new = _rates(contract, length.scheduled_steps)
    if length.most_steps <= step:
        raise Mistake(_no_steps(step, length.most_steps))
    first = next((at for at in range(step) if old(at) != new(at)), step)
    if first == step:
        return
    raise Mistake(
        Problem(
            f"the learning rate is not that of run {folder.name} before step {step:,}",
            path="training.scheduler",
            found=f"{new(first):.6g} of the peak at step {first + 1:,}",
            expected=f"{old(first):.6g}, as in run {folder.name}",
            fix="give the warmup in steps, and begin the decay at that step or later",
            place=ready.document.source.place_of("training.scheduler"),
        )
    )


def _rates(contract: Contract, steps: int) -> Schedule:
    schedule = build_schedule(contract.training.scheduler, steps)
    if not isinstance(schedule, Plateau):
        return schedule
    raise Mistake(
        Problem(
            "the learning rate follows validations, and not the steps alone",
            path="training.scheduler",
            found=contract.training.scheduler.name,
            expected="a schedule over steps",
            fix="choose another schedule for both runs",
        )
    )


def _begun_otherwise(folder: RunFolder) -> Problem:
    return Problem(
        f"run {folder.name} was begun with its own first step",
        path=_FROM,
        found="a run to resume",
        expected="a new run",
        fix="resume it as it was begun, or name a new run",
    )


def _no_steps(step: int, length: int) -> Problem:
    return Problem(
        "the run would be over where it begins",
        path=_FROM,
        found=f"step {step:,} of {many(length, 'step')}",
        expected="a checkpoint before the last step",
        fix="train longer, or begin earlier",
    )
