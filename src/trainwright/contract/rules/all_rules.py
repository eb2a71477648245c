"""Rules that look at several keys or sections. Each is a small pure function; all of them run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from trainwright.contract.document import Contract
from trainwright.contract.rules.data.rules_by_data import data_section_rules
from trainwright.contract.rules.data.sampling_rules import SAMPLING_RULES
from trainwright.contract.rules.data.slice_rules import slices_are_named
from trainwright.contract.rules.data.source_rules import SOURCE_RULES
from trainwright.contract.rules.effect_rules import training_has_effect
from trainwright.contract.rules.kind_rules import KIND_RULES
from trainwright.contract.rules.limit_rules import sizes_are_possible
from trainwright.contract.rules.target.metric_rules import METRIC_RULES
from trainwright.contract.rules.target.order_rules import ORDER_RULES
from trainwright.contract.rules.target.regression_rules import REGRESSION_RULES
from trainwright.contract.rules.training.average_rules import AVERAGE_RULES
from trainwright.contract.rules.training.batch_rules import batch_arithmetic
from trainwright.contract.rules.training.budget_rules import cost_has_a_price
from trainwright.contract.rules.training.checkpoint_rules import (
    check_ranking,
    check_remote,
    check_spacing,
)
from trainwright.contract.rules.training.compute_rules import (
    check_matrix_products,
    check_memory_format,
)
from trainwright.contract.rules.training.guard_rules import rollback_has_the_optimizer
from trainwright.contract.rules.training.memory_rules import MEMORY_RULES
from trainwright.contract.rules.training.optimizer_rules import (
    check_batch_scaling,
    check_nesterov,
    check_one_mean,
    check_plateau,
    check_schedule_free,
    check_schedule_phases,
    check_warmup,
    check_width_scaling,
)
from trainwright.contract.rules.training.ramp_rules import RAMP_RULES
from trainwright.contract.rules.training.seed_rules import SEED_RULES
from trainwright.contract.rules.training.tracking_rules import check_inspect
from trainwright.contract.rules.training.validation_rules import VALIDATION_RULES
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
    cost_has_a_price,
)
