"""`distributed.strategy: auto` of a run on several ranks: measured between them at its start, and
kept when it goes on."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from trainwright.contract.rules.distributed_rules import RankStrategy, possible_strategies
from trainwright.contract.sections.section import settled
from trainwright.core.errors import ContractMistake
from trainwright.model.input_shape import shape_of
from trainwright.planner.choose_strategy import Candidates, RankSpeeds, choose_strategy
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.rank_choices import STRATEGY, take_strategy
from trainwright.planner.resolve.training_choices import Choice
from trainwright.run.folder.planned_contract import read_started
from trainwright.run.opening.open_folder import find_begun
from trainwright.run.prepare.prepare_run import Ready, blaming
from trainwright.run.prepare.replan import replan
from trainwright.run.request import Request, need_ranks
from trainwright.run.screen import Screen, StageTimes, describe_choice

_STEPS = "training.gradient_accumulation_steps"


def settle_strategy(request: Request, ready: Ready, stages: StageTimes, screen: Screen) -> Ready:
    """The plan with a strategy in the place of `auto`. Writes nothing.

    Raises:
        ContractMistake: the model fits into no device, however it is divided.
    """
    need_ranks(ready.plan.contract)
    for folder in find_begun(request, ready):
        started = read_started(folder)
        written = started["contract"]["distributed"]["strategy"]
        kept = Choice(STRATEGY, written, "what the run was started with")
        for one in started["choices"]:
            if one["path"] == STRATEGY:
                kept = replace(kept, reason=one["reason"], measured=one.get("measured", {}))
        return take_choice(ready, kept)
    with stages("measure"), blaming(ready.document.source):
        measure = partial(measure_ranks, ready)
        choice = choose_strategy(plan_candidates(ready), shape_of(ready.prepared), measure)
    screen.say(describe_choice(choice))
    return take_choice(ready, choice)


def plan_candidates(ready: Ready) -> Candidates:
    """Plan with each strategy that the contract may have."""
    candidates: dict[RankStrategy, Plan | ContractMistake] = {}
    for name in possible_strategies(ready.document.contract):
        try:
            candidates[name] = take_choice(ready, Choice(STRATEGY, name, "tried")).plan
        except ContractMistake as mistake:
            candidates[name] = mistake
    return candidates


def take_choice(ready: Ready, choice: Choice) -> Ready:
    """The plan of the contract with the chosen strategy in the place of `auto`."""
    ranks = settled(ready.plan.contract.distributed.num_gpus)
    written = ready.document.contract
    contract = take_strategy(written, choice.value, ranks)
    choices = [choice]
    if contract.training != written.training:
        steps = contract.training.gradient_accumulation_steps
        choices.append(Choice(_STEPS, steps, f"one process makes what {ranks} would"))
    plan = replan(ready, contract)
    plan = replace(plan, choices=(*plan.choices, *choices))
    return replace(ready, document=replace(ready.document, contract=contract), plan=plan)


def measure_ranks(ready: Ready) -> RankSpeeds:
    """Time of a row in the passes of this process, and the link to the others."""
    # Imported here: few contracts leave the strategy open.
    from trainwright.planner.compute_trials import time_micro_batch
    from trainwright.run.ranks.follow import measure_link_of_ranks
    from trainwright.run.trial.compute_trial import build_trial

    plan = ready.plan
    seconds = time_micro_batch(plan, build_trial(plan, ready.prepared))
    return RankSpeeds(seconds / settled(plan.contract.training.batch_size), measure_link_of_ranks())
