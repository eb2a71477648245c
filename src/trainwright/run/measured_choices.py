"""Choices measured on the machine at the start of a run, and work that a budget did beforehand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.document import Contract
from trainwright.contract.sections.data.data import Data
from trainwright.contract.sections.section import settled
from trainwright.core.files import Json
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import Baselines
from trainwright.planner.budget_allotment import Rows
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.compute_choices import (
    LONG_SECONDS,
    PLAIN,
    WORKERS,
    choose_workers,
    open_paths,
)
from trainwright.planner.resolve.training_choices import Choice
from trainwright.run.audit_data import Looked, look_at_data
from trainwright.run.folder.model_files import fit_beside
from trainwright.run.folder.planned_contract import read_started
from trainwright.run.opening.open_folder import find_begun
from trainwright.run.prepare.prepare_run import Ready
from trainwright.run.request import Request
from trainwright.run.screen import Screen, StageTimes, describe_choice
from trainwright.tracking.run_folder import RunFolder

_DETERMINISM = "resume.determinism"
_BRIEF_ROWS = 16


@final
@dataclass(frozen=True, slots=True)
class Beforehand:
    """Work that a run with a budget does before training, so that its time is known: data checks
    and baselines. Empty without a budget, or on a resume."""

    found: tuple[Looked, ...] = ()
    fitted: tuple[Baselines, ...] = ()

    def look(self, ready: Ready) -> Looked:
        """Findings of the data checks."""
        return self.found[0] if self.found else look_at_data(ready)

    def baselines(self, prepared: Prepared, data: Data, rows: Rows) -> Baselines:
        """Baselines of the run."""
        return self.fitted[0] if self.fitted else fit_beside(prepared, data, rows)


def settle(request: Request, ready: Ready, stages: StageTimes, screen: Screen) -> Ready:
    """Resolve everything left open in the plan; a resumed run keeps its earlier choices and
    extensions. Writes nothing.

    Raises:
        Mistake: there is no run to resume.
    """
    if ready.plan.contract.distributed.strategy == "auto":
        # Imported here: few contracts leave it open.
        from trainwright.run.settle_strategy import settle_strategy

        ready = settle_strategy(request, ready, stages, screen)
    ready = _settle_compute(request, ready, stages, screen)
    return _with_endings(request, _settle_workers(request, ready, stages, screen))


def _with_endings(request: Request, ready: Ready) -> Ready:
    plan = ready.plan
    for folder in find_begun(request, ready):
        from trainwright.planner.extend_plan import Extension, extend_plan

        started = read_started(folder)
        plan = replace(plan, start=started.get("start", {}))
        for one in started.get("extensions", []):
            plan = extend_plan(plan, Extension.from_json(one))
    return replace(ready, plan=plan)


def _settle_workers(request: Request, ready: Ready, stages: StageTimes, screen: Screen) -> Ready:
    """Number of loader processes; a resumed run keeps its own."""
    if ready.plan.contract.data.num_workers != "auto":
        return ready
    for folder in find_begun(request, ready):
        kept = read_started(folder)["contract"]["data"].get("num_workers", "auto")
        if kept == "auto":
            break
        choice = Choice(WORKERS, kept, "what the run was started with")
        return replace(ready, plan=ready.plan.with_workers(choice))
    with stages("measure"):
        # Imported here: only networks need torch.
        from trainwright.run.compose.compose_step import kernels
        from trainwright.run.trial.worker_trial import Rehearsal

        budget = ready.plan.contract.budget.seconds()
        with kernels(ready.plan.contract):
            rehearsal = Rehearsal(_tried(ready.plan), ready.prepared)
            choice = choose_workers(rehearsal, ready.device, budget)
    screen.say(describe_choice(choice))
    return replace(ready, plan=ready.plan.with_workers(choice))


def _settle_compute(request: Request, ready: Ready, stages: StageTimes, screen: Screen) -> Ready:
    """How a step is computed.

    A resumed run computes as its first start chose, without measuring: another choice would give
    different bits.
    """
    if not ready.plan.contract.model.is_loop_trained:
        return ready
    for folder in _computed_before(request, ready):
        started = read_started(folder)
        return replace(ready, plan=as_started(ready.plan, ready.document.contract, started))
    made = ready.plan
    costs = made.contract.resume.determinism != "off" and not made.too_short
    if costs and _is_brief(made):
        costs, why = False, "a budget under ten minutes is better spent on the training"
        made = replace(made, determinism_cost={"not_measured": why})
    if not made.open_paths and not costs:
        return replace(ready, plan=made)
    with stages("measure"):
        # Imported here: only networks need torch.
        from trainwright.planner.compute_trials import measure_compute, measure_determinism
        from trainwright.run.trial.compute_trial import build_trial

        trial = build_trial(_tried(made), ready.prepared)
        decided = measure_compute(made, trial) if made.open_paths else made
        decided = measure_determinism(decided, trial) if costs else decided
    for choice in decided.choices[len(made.choices) :]:
        screen.say(describe_choice(choice))
    return replace(ready, plan=decided)


def _computed_before(request: Request, ready: Ready) -> list[RunFolder]:
    """The run to resume, or the one whose checkpoint it begins at."""
    begun = find_begun(request, ready)
    if begun or not request.start:
        return begun
    from trainwright.run.extend.starting_point import source_run

    return [source_run(request)]


def _is_brief(plan: Plan) -> bool:
    """Is the budget too small for long measurements?"""
    return plan.contract.budget.seconds() < LONG_SECONDS


def _tried(plan: Plan) -> Plan:
    """Plan for the measurements: with fewer rows for a small budget, which discriminate variants as
    well."""
    training = plan.contract.training
    if not _is_brief(plan) or settled(training.batch_size) <= _BRIEF_ROWS:
        return plan
    return plan.with_training(training.model_copy(update={"batch_size": _BRIEF_ROWS}), ())


def as_started(plan: Plan, written: Contract, started: Json) -> Plan:
    """The plan with the choices and measurements of its first start where the contract says
    `auto`."""
    from trainwright.planner.compute_trials import take_choices

    recorded = {choice["path"]: choice for choice in started["choices"]}
    open_now = open_paths(written.training)
    if written.resume.determinism == "auto":
        open_now = (*open_now, _DETERMINISM)
    kept = [
        Choice(path, recorded[path]["value"], recorded[path]["reason"], _numbers(recorded[path]))
        if path in recorded
        else Choice(path, PLAIN[path], "what the version computed that started the run")
        for path in open_now
        if path in recorded or path in PLAIN
    ]
    paths = {choice.path for choice in kept}
    others = tuple(choice for choice in plan.choices if choice.path not in paths)
    contract = plan.contract
    level = {choice.path: choice.value for choice in kept}.get(
        _DETERMINISM, contract.resume.determinism
    )
    resume = contract.resume.model_copy(update={"determinism": level})
    contract = contract.model_copy(update={"resume": resume})
    cost = started.get("determinism_cost", {})
    plan = replace(plan, contract=contract, choices=others, determinism_cost=cost)
    return plan.with_training(take_choices(contract.training, kept), kept)


def _numbers(choice: Json) -> dict[str, Json]:
    numbers: dict[str, Json] = choice.get("measured", {})
    return numbers
