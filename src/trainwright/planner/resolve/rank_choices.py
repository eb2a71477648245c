"""`distributed.strategy: auto`, as far as neither memory nor a measurement has to decide it."""

from __future__ import annotations

from trainwright.contract.document import Contract
from trainwright.contract.rules.distributed_rules import (
    RankStrategy,
    possible_strategies,
    problems_of_strategy,
)
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.planner.resolve.training_choices import Choice, Choosing

STRATEGY = "distributed.strategy"


def choose_alone(contract: Contract, device: DeviceFacts, choosing: Choosing) -> Contract:
    """The contract with `strategy: single` in place of `auto` where nothing else is possible."""
    section = contract.distributed
    ranks = device.ranks if section.num_gpus == "auto" else section.num_gpus
    if ranks == 1:
        reason = "there is one device"
    elif possible_strategies(contract) == ("single",):
        reason = "its library uses all cores from one process"
        for problem in problems_of_strategy(contract, "ddp"):
            is_setting = problem.path != STRATEGY
            reason = problem.message + is_setting * f": {problem.path} is {problem.found}"
            break
    else:
        return contract
    choosing.made.append(Choice(STRATEGY, "single", reason))
    return take_strategy(contract, "single", 1 if section.num_gpus == "auto" else ranks)


def take_strategy(contract: Contract, strategy: RankStrategy, ranks: int) -> Contract:
    """The contract with this strategy in place of `auto`. A single process makes all micro-batches
    of the steps of `ranks` processes."""
    update: dict[str, object] = {"strategy": strategy}
    if strategy == "single":
        update["num_gpus"] = 1
    section = contract.distributed.model_copy(update=update)
    contract = contract.model_copy(update={"distributed": section})
    training = contract.training
    own = training.gradient_accumulation_steps
    follows = own == "auto" and training.effective_batch_size != "auto"
    if strategy != "single" or ranks == 1 or follows:
        return contract
    steps = ranks * (1 if own == "auto" else own)
    training = training.model_copy(update={"gradient_accumulation_steps": steps})
    return contract.model_copy(update={"training": training})
