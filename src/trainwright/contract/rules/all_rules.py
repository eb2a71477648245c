"""All rules that look at several keys or sections, sizes that no machine has, keys without an
implementation.

Reading a contract does not check for keys that this version does not implement yet; whatever acts
on the contract does, and raises `NotAvailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import BaseModel

from trainwright.contract.document import Contract
from trainwright.contract.rules.compatibility_rules import KIND_RULES, training_has_effect
from trainwright.contract.rules.data.source_rules import SAMPLING_RULES, SOURCE_RULES
from trainwright.contract.rules.target.metric_rules import METRIC_RULES, slices_are_named
from trainwright.contract.rules.target.regression_rules import ORDER_RULES, REGRESSION_RULES
from trainwright.contract.rules.training.checkpoint_rules import (
    VALIDATION_RULES,
    check_inspect,
    check_ranking,
    check_remote,
    check_sinks,
    check_spacing,
    rollback_has_the_optimizer,
)
from trainwright.contract.rules.training.memory_rules import (
    MEMORY_RULES,
    check_matrix_products,
    check_memory_format,
)
from trainwright.contract.rules.training.seed_rules import SEED_RULES
from trainwright.contract.rules.training.step_rules import (
    AVERAGE_RULES,
    RAMP_RULES,
    batch_arithmetic,
    check_batch_scaling,
    check_nesterov,
    check_one_mean,
    check_plateau,
    check_schedule_free,
    check_schedule_phases,
    check_warmup,
    check_width_scaling,
)
from trainwright.contract.sections.run_settings import Distributed
from trainwright.core.errors import Mistake, Problem
from trainwright.core.files import check_name
from trainwright.core.lazy_imports import LazyTable
from trainwright.core.limits import MOST_BATCH, MOST_EPOCHS, MOST_LAYERS, MOST_TREES, MOST_WIDTH

SectionRule: TypeAlias = Callable[[Contract, Any, frozenset[str]], Iterator[Problem]]
"""What it has against a contract, whose `data` is its argument too."""

_HERE = "trainwright.contract.rules.data"

RULES_BY_DATA: Mapping[str, tuple[SectionRule, ...]] = LazyTable(
    {
        "table": f"{_HERE}.table_rules:TABLE_RULES",
        "images": f"{_HERE}.image_rules:IMAGE_RULES",
        "tokens": f"{_HERE}.text_rules:TOKEN_RULES",
        "chats": f"{_HERE}.text_rules:CHAT_RULES",
        "preferences": "trainwright.contract.rules.compatibility_rules:PREFERENCE_RULES",
        "series": f"{_HERE}.series_rules:SERIES_RULES",
        "pairs": f"{_HERE}.image_rules:PAIR_RULES",
        "text_pairs": f"{_HERE}.text_pair_rules:TEXT_PAIR_RULES",
        "captions": f"{_HERE}.image_rules:CAPTION_RULES",
    }
)
"""A line for each kind of data that has rules of its own."""

MOST: Mapping[str, int] = MappingProxyType(
    {
        "training.num_epochs": MOST_EPOCHS,
        "training.batch_size": MOST_BATCH,
        "training.effective_batch_size": MOST_BATCH,
        "training.gradient_accumulation_steps": MOST_BATCH,
        "model.max_trees": MOST_TREES,
    }
)
"""The largest value of each key."""

Problems: TypeAlias = Iterator[Problem]
Rule: TypeAlias = Callable[[Contract, frozenset[str]], Problems]


def data_section_rules(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """The rules of the contract's kind of data."""
    for rule in RULES_BY_DATA.get(contract.data.kind, ()):
        yield from rule(contract, contract.data, written)


def sizes_are_possible(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """No count is beyond what any machine could do."""
    for path, most in MOST.items():
        value = _at(contract, path)
        if isinstance(value, int) and value > most:
            yield _too_large(path, value, most)
    hidden = _at(contract, "model.hidden")
    if isinstance(hidden, tuple):
        if len(hidden) > MOST_LAYERS:
            yield _too_large("model.hidden", len(hidden), MOST_LAYERS, "layers")
        elif hidden and max(hidden) > MOST_WIDTH:
            yield _too_large("model.hidden", max(hidden), MOST_WIDTH, "units in a layer")


def _at(contract: Contract, path: str) -> object:
    value: object = contract
    for part in path.split("."):
        value = getattr(value, part, None) if isinstance(value, BaseModel) else None
    return value


def _too_large(path: str, found: int, most: int, unit: str = "") -> Problem:
    return Problem(
        "the value is larger than any machine can do",
        path=path,
        found=f"{found:,} {unit}".strip(),
        expected=f"at most {most:,} {unit}".strip(),
        fix="write a smaller one",
    )


def cost_has_a_price(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """A limit on money needs the price of time."""
    if contract.budget.cost != "unlimited" and contract.budget.price_per_hour == 0:
        yield Problem(
            "budget.cost needs budget.price_per_hour",
            path="budget.cost",
            expected="price_per_hour above 0 beside cost",
            fix="add for example: price_per_hour: 2.5",
        )


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


def teacher_fits(contract: Contract, written: frozenset[str]) -> Problems:
    """A teacher, if there is one."""
    if contract.training.teacher != "none":
        # Imported here, as below: few contracts have one.
        from trainwright.contract.rules.training.teacher_rules import check_teacher

        yield from check_teacher(contract, written)


def questions_fit(contract: Contract, written: frozenset[str]) -> Problems:
    """Questions, if there are some."""
    if contract.questions:
        from trainwright.contract.rules.target.question_rules import check_questions

        yield from check_questions(contract, written)


def purpose_fits(contract: Contract, written: frozenset[str]) -> Problems:
    """A purpose, if one is stated."""
    if contract.purpose != "unstated":
        from trainwright.contract.rules.purpose_rules import check_purpose

        yield from check_purpose(contract, written)


def ranks_fit(contract: Contract, written: frozenset[str]) -> Problems:
    """Several processes, if there are some."""
    if contract.distributed != Distributed():
        from trainwright.contract.rules.distributed_rules import check_ranks, check_replicas
        from trainwright.contract.rules.division_rules import check_division

        yield from check_replicas(contract.distributed)
        yield from check_ranks(contract, written)
        yield from check_division(contract, written)


def search_fits(contract: Contract, written: frozenset[str]) -> Problems:
    """A search, if there is one."""
    if contract.tune != "off":
        from trainwright.contract.rules.tune_rules import check_search

        yield from check_search(contract, written)


RULES: tuple[Rule, ...] = (
    safe_name,
    sizes_are_possible,
    *KIND_RULES,
    *SOURCE_RULES,
    data_section_rules,
    *SAMPLING_RULES,
    batch_arithmetic,
    training_has_effect,
    teacher_fits,
    *SEED_RULES,
    check_schedule_free,
    check_one_mean,
    check_batch_scaling,
    check_nesterov,
    check_warmup,
    check_width_scaling,
    check_schedule_phases,
    check_plateau,
    *RAMP_RULES,
    *VALIDATION_RULES,
    *AVERAGE_RULES,
    check_memory_format,
    check_matrix_products,
    rollback_has_the_optimizer,
    check_inspect,
    check_sinks,
    *MEMORY_RULES,
    *METRIC_RULES,
    *REGRESSION_RULES,
    *ORDER_RULES,
    check_ranking,
    check_spacing,
    check_remote,
    slices_are_named,
    questions_fit,
    purpose_fits,
    search_fits,
    ranks_fit,
    cost_has_a_price,
)


def unavailable(contract: Contract) -> list[Problem]:
    """A problem for each key that asks for work which is not built, without places."""
    return list(_distributed(contract))


def _not_available(what: str, path: str, found: str, fix: str) -> Problem:
    return Problem(f"not available in this version: {what}", path=path, found=found, fix=fix)


def _distributed(contract: Contract) -> Iterator[Problem]:
    section = contract.distributed
    if section.backend == "nccl":
        yield _not_available("a backend by name", "distributed.backend", "nccl", "choose auto")
