"""Rules that look at several keys or sections. Each is a small pure function; all of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from trainwright.contract.document import Contract
from trainwright.contract.rules.average_rules import AVERAGE_RULES
from trainwright.contract.rules.checkpoint_rules import check_ranking, check_remote, check_spacing
from trainwright.contract.rules.compute_rules import check_matrix_products, check_memory_format
from trainwright.contract.rules.effect_rules import training_has_effect
from trainwright.contract.rules.kind_rules import KIND_RULES
from trainwright.contract.rules.memory_rules import MEMORY_RULES
from trainwright.contract.rules.metric_rules import (
    check_floors,
    check_metric,
    check_target,
    check_target_reached,
    check_watched,
)
from trainwright.contract.rules.number_rules import NUMBER_RULES
from trainwright.contract.rules.optimizer_rules import (
    check_batch_scaling,
    check_nesterov,
    check_one_mean,
    check_plateau,
    check_schedule_free,
    check_schedule_phases,
    check_warmup,
)
from trainwright.contract.rules.order_rules import ORDER_RULES
from trainwright.contract.rules.ramp_rules import RAMP_RULES
from trainwright.contract.rules.rules_by_data import data_section_rules
from trainwright.contract.rules.sampling_rules import SAMPLING_RULES
from trainwright.contract.rules.seed_rules import SEED_RULES
from trainwright.contract.rules.size_rules import sizes_are_possible
from trainwright.contract.rules.source_rules import SOURCE_RULES
from trainwright.contract.rules.teacher_rules import check_teacher
from trainwright.contract.rules.tracking_rules import check_inspect
from trainwright.contract.rules.validation_rules import VALIDATION_RULES
from trainwright.core.errors import Mistake, Problem
from trainwright.core.paths import check_name

Problems: TypeAlias = Iterator[Problem]
Rule: TypeAlias = Callable[[Contract, frozenset[str]], Problems]


def problems_of_rules(contract: Contract, written: frozenset[str]) -> list[Problem]:
    """What the rules have against the contract, without places; `written` are the paths that its
    file spells out."""
    return [problem for rule in RULES for problem in rule(contract, written)]


def safe_name(contract: Contract, _written: frozenset[str]) -> Problems:
    """The name becomes the name of folders, with a number behind it."""
    try:
        check_name(f"{contract.name}-000000", "the name")
    except Mistake:
        yield Problem(
            "the name is not safe as the name of a folder",
            path="name",
            found=repr(contract.name[:60]),
            expected="at most 57 letters, digits, '.', '_' or '-', starting with a letter or digit",
            fix="choose a name such as income",
        )


def batch_arithmetic(contract: Contract, _written: frozenset[str]) -> Problems:
    """batch_size x gradient_accumulation_steps x devices is effective_batch_size."""
    training = contract.training
    batch, accumulation = training.batch_size, training.gradient_accumulation_steps
    effective = training.effective_batch_size
    devices = 1 if contract.distributed.num_gpus == "auto" else contract.distributed.num_gpus
    if effective == "auto":
        return
    if batch == "auto" or accumulation == "auto":
        known = devices
        known *= 1 if batch == "auto" else batch
        known *= 1 if accumulation == "auto" else accumulation
        if effective % known:
            yield Problem(
                f"effective_batch_size {effective} is not a multiple of {known}, which is "
                f"{_factors(batch, accumulation, devices)}",
                path="training.effective_batch_size",
                found=str(effective),
                expected=f"a multiple of {known}",
                fix=f"change it to {max(1, round(effective / known)) * known}",
            )
        return
    product = batch * accumulation * devices
    if product != effective:
        yield Problem(
            f"effective_batch_size says {effective}, but {_factors(batch, accumulation, devices)} "
            f"is {product}",
            path="training.effective_batch_size",
            found=str(effective),
            expected=str(product),
            fix=_ways_to_mend(batch, accumulation, devices, effective),
        )


def _factors(batch: int | str, accumulation: int | str, devices: int) -> str:
    named = (
        ("training.batch_size", batch),
        ("training.gradient_accumulation_steps", accumulation),
        ("distributed.num_gpus", devices),
    )
    return " x ".join(f"{path} {value}" for path, value in named if value != "auto")


def _ways_to_mend(batch: int, accumulation: int, devices: int, effective: int) -> str:
    ways = [f"effective_batch_size to {batch * accumulation * devices}"]
    for name, rest in (
        ("gradient_accumulation_steps", batch * devices),
        ("num_gpus", batch * accumulation),
        ("batch_size", accumulation * devices),
    ):
        if effective % rest == 0:
            ways.append(f"{name} to {effective // rest}")
    return f"change {', or '.join(ways)}"


def rollback_has_the_optimizer(contract: Contract, written: frozenset[str]) -> Problems:
    """A state without the optimizer's is not one to go back to."""
    training = contract.training
    if training.checkpointing.save_optimizer_state:
        return
    policies = (("non_finite", training.guard.non_finite), ("spike", training.guard.spike))
    for key, policy in policies:
        path = f"training.guard.{key}"
        if path in written and (policy == "rollback" or (key, policy) == ("non_finite", "skip")):
            yield Problem(
                f"{policy} needs checkpoints that hold the optimizer",
                path=path,
                found=policy,
                expected="training.checkpointing.save_optimizer_state true",
                fix=f"write training.checkpointing.save_optimizer_state: true, or {path}: raise",
            )


def slices_are_named(contract: Contract, _written: frozenset[str]) -> Problems:
    """Each slice says one way which rows it means, and no two have the same name."""
    names = Counter[str]()
    for at, part in enumerate(contract.slices):
        if bool(part.column) == bool(part.where):
            yield Problem(
                "a slice has either a column or a condition",
                path=f"slices.{at}",
                found="both" if part.column else "neither",
                expected="column or where",
                fix="keep one of the two" if part.column else "add for example: column: region",
            )
        if part.name and part.column and not part.where:
            yield Problem(
                "the slices of a column are named by its values",
                path=f"slices.{at}.name",
                found=part.name,
                expected="name only beside where",
                fix="remove name",
            )
        name = (part.name or part.where) if part.where else f"{part.column}=<value>"
        names[name] += 1
        if names[name] == 2 and (part.column or part.where):
            yield Problem(
                f"two slices are called {name!r}",
                path=f"slices.{at}",
                expected="a name for each",
                fix="remove one, or give it a name of its own",
            )


def cost_has_a_price(contract: Contract, _written: frozenset[str]) -> Problems:
    """A limit on money needs the price of time."""
    if contract.budget.cost != "unlimited" and contract.budget.price_per_hour == 0:
        yield Problem(
            "budget.cost needs budget.price_per_hour",
            path="budget.cost",
            expected="price_per_hour above 0 beside cost",
            fix="add for example: price_per_hour: 2.5",
        )


RULES: tuple[Rule, ...] = (
    safe_name,
    sizes_are_possible,
    *KIND_RULES,
    *SOURCE_RULES,
    data_section_rules,
    *SAMPLING_RULES,
    batch_arithmetic,
    training_has_effect,
    check_teacher,
    *SEED_RULES,
    check_schedule_free,
    check_one_mean,
    check_batch_scaling,
    check_nesterov,
    check_warmup,
    check_schedule_phases,
    check_plateau,
    *RAMP_RULES,
    *VALIDATION_RULES,
    *AVERAGE_RULES,
    check_memory_format,
    check_matrix_products,
    rollback_has_the_optimizer,
    check_inspect,
    *MEMORY_RULES,
    check_metric,
    check_target,
    *NUMBER_RULES,
    *ORDER_RULES,
    check_watched,
    check_target_reached,
    check_ranking,
    check_spacing,
    check_remote,
    check_floors,
    slices_are_named,
    cost_has_a_price,
)
