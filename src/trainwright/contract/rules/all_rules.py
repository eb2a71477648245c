"""Rules that look at several keys or sections. Each is a small pure function; all of them run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key
from trainwright.contract.rules.average_rules import AVERAGE_RULES
from trainwright.contract.rules.checkpoint_rules import check_ranking, check_remote, check_spacing
from trainwright.contract.rules.compute_rules import check_matrix_products, check_memory_format
from trainwright.contract.rules.effect_rules import training_has_effect
from trainwright.contract.rules.feature_rules import FEATURE_RULES
from trainwright.contract.rules.kind_rules import KIND_RULES
from trainwright.contract.rules.memory_rules import MEMORY_RULES
from trainwright.contract.rules.metric_rules import (
    check_floors,
    check_metric,
    check_target,
    check_target_reached,
    check_watched,
)
from trainwright.contract.rules.optimizer_rules import (
    check_batch_scaling,
    check_nesterov,
    check_one_mean,
    check_plateau,
    check_schedule_free,
    check_schedule_phases,
    check_warmup,
)
from trainwright.contract.rules.quality_rules import QUALITY_RULES
from trainwright.contract.rules.ramp_rules import RAMP_RULES
from trainwright.contract.rules.sampling_rules import SAMPLING_RULES
from trainwright.contract.rules.seed_rules import check_seeds
from trainwright.contract.rules.size_rules import images_fit_their_limit, sizes_are_possible
from trainwright.contract.rules.source_rules import SOURCE_RULES
from trainwright.contract.rules.token_rules import TOKEN_RULES
from trainwright.contract.rules.tracking_rules import check_inspect
from trainwright.contract.rules.validation_rules import VALIDATION_RULES
from trainwright.contract.sections.data import (
    AutoSplit,
    ColumnSplit,
    FileSplit,
    TableData,
    TimeSplit,
    fold_count,
    split_columns,
)
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


def split_of_given_parts(contract: Contract, written: frozenset[str]) -> Problems:
    """A part with a file of its own is not divided off again."""
    data = contract.data
    if not isinstance(data, TableData):
        return
    given = {"validation": ("val_path", data.val_path), "test": ("test_path", data.test_path)}
    for part, (key, path) in given.items():
        if path and f"data.split.{part}" in written:
            yield Problem(
                f"data.split.{part} has no effect beside data.{key}",
                path=f"data.split.{part}",
                expected=f"only one of data.split.{part} and data.{key}",
                fix="remove one of the two",
            )
    everything_given = all(path for _, path in given.values())
    split = data.split
    if everything_given and not isinstance(split, AutoSplit):
        yield Problem(
            f"the {split.kind} split divides nothing: validation and test have their own files",
            path="data.split",
            found=f"kind {split.kind}, data.val_path and data.test_path",
            fix="remove data.split, or val_path and test_path",
        )
    elif isinstance(split, ColumnSplit | FileSplit) and (data.val_path or data.test_path):
        yield Problem(
            f"a split by {split.kind} says where every row belongs, so no part has a file of its "
            "own",
            path="data.split",
            found=f"kind {split.kind} beside data.val_path or data.test_path",
            fix="remove data.split, or the path",
        )
    elif fold_count(data) and (data.val_path or data.test_path):
        yield Problem(
            "every row is tested once in its fold, so no part has a file of its own",
            path="data.split.folds",
            found="folds beside data.val_path or data.test_path",
            fix="remove folds, or the path",
        )


def target_is_not_a_feature(contract: Contract, _written: frozenset[str]) -> Problems:
    """The target is read, never excluded, and never decides the split."""
    data = contract.data
    if not isinstance(data, TableData):
        return
    if data.target in data.exclude:
        yield Problem(
            f"the target {data.target!r} is excluded; a target is never a feature anyway",
            path="data.exclude",
            fix="remove it from exclude",
        )
    column = data.columns.get(data.target)
    if column is not None and column.kind == "ignored":
        yield Problem(
            f"the target {data.target!r} is ignored",
            path=f"data.columns.{as_key(data.target)}.kind",
            found="ignored",
            fix="remove the key, or name another target",
        )
    for field, name in split_columns(data.split):
        if name == data.target:
            yield Problem(
                f"the {data.split.kind} split goes by the target {data.target!r}",
                path=f"data.split.{field}",
                found=name,
                expected="another column than data.target",
                fix="name the column that the rows are divided by",
            )


def column_formats(contract: Contract, _written: frozenset[str]) -> Problems:
    """A format is one of dates."""
    columns = contract.data.columns if isinstance(contract.data, TableData) else {}
    for name, column in columns.items():
        if column.format != "auto" and column.kind not in ("auto", "datetime"):
            yield Problem(
                f"a {column.kind} column has no format",
                path=f"data.columns.{as_key(name)}.format",
                found=column.format,
                expected="format only beside kind: datetime",
                fix="remove format, or change kind to datetime",
            )


def time_is_said_once(contract: Contract, _written: frozenset[str]) -> Problems:
    """A time split goes by a column, by parts of a time, or by the order of the file."""
    data = contract.data
    if not isinstance(data, TableData) or not isinstance(data.split, TimeSplit):
        return
    split = data.split
    said = [bool(split.column), bool(split.parts), split.order == "file"]
    if sum(said) != 1:
        yield Problem(
            "a time split needs a time" if not any(said) else "the time is said twice",
            path="data.split",
            found=f"column {split.column!r}, parts {list(split.parts)}, order {split.order}",
            expected="one of column, parts and order: file",
            fix="write column: NAME, or order: file if the rows stand in the order of time",
        )
    if split.parts and (split.gap or split.window != "all"):
        yield Problem(
            "parts of a time have no distance",
            path="data.split.gap" if split.gap else "data.split.window",
            found=f"parts {list(split.parts)}",
            expected="gap and window only beside a column, or order: file",
            fix="remove it, or make one column of the parts",
        )


def column_units(contract: Contract, _written: frozenset[str]) -> Problems:
    """A unit stands beside numbers."""
    columns = contract.data.columns if isinstance(contract.data, TableData) else {}
    for name, column in columns.items():
        if column.unit and column.kind not in ("auto", "numeric"):
            yield Problem(
                f"a {column.kind} column has no unit",
                path=f"data.columns.{as_key(name)}.unit",
                found=column.unit,
                expected="unit only beside kind: numeric",
                fix="remove unit, or change kind to numeric",
            )


def positive_needs_classes(contract: Contract, written: frozenset[str]) -> Problems:
    """Numbers have no positive class."""
    data = contract.data
    if not isinstance(data, TableData):
        return
    if contract.task == "regression" and "data.positive" in written:
        yield Problem(
            "data.positive has no meaning in a regression",
            path="data.positive",
            found=data.positive,
            expected="positive only where task is classification",
            fix="remove positive, or change task",
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
    images_fit_their_limit,
    *KIND_RULES,
    *SOURCE_RULES,
    split_of_given_parts,
    target_is_not_a_feature,
    column_formats,
    column_units,
    time_is_said_once,
    *FEATURE_RULES,
    *TOKEN_RULES,
    positive_needs_classes,
    *SAMPLING_RULES,
    batch_arithmetic,
    training_has_effect,
    check_seeds,
    check_schedule_free,
    check_one_mean,
    check_batch_scaling,
    check_nesterov,
    check_warmup,
    check_schedule_phases,
    check_plateau,
    *QUALITY_RULES,
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
    check_watched,
    check_target_reached,
    check_ranking,
    check_spacing,
    check_remote,
    check_floors,
    slices_are_named,
    cost_has_a_price,
)
