"""Contract problems that only its data can show."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import as_key, nearest_word
from trainwright.contract.rules.all_rules import positive_needs_classes
from trainwright.contract.rules.metric_rules import (
    check_floors,
    check_metric,
    check_target,
    check_watched,
)
from trainwright.contract.rules.ramp_rules import check_batch_ramp, check_noise_scale
from trainwright.contract.rules.sampling_rules import check_balanced
from trainwright.contract.sections.averaging import CyclicRate, Swa
from trainwright.contract.sections.data import TableData, split_columns
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.model import Boosting, Gpt, Linear, Pretrained
from trainwright.contract.sections.sampling import Balanced, Blocks, Uniform
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.tokens import TokenData
from trainwright.contract.sections.training import EarlyStopping
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.data.quality.columns.patterns import problem_with_pattern
from trainwright.data.read_table import DataFacts
from trainwright.optim.swa_schedule import taking_of
from trainwright.planner.boosting_rules import problems_with_objective
from trainwright.planner.estimate import epoch_ends, scheduled_steps, text_rows, train_rows_of

_MOST_NAMED = 12


def problems_with_data(
    contract: Contract, facts: DataFacts, written: frozenset[str]
) -> list[Problem]:
    """Problems of a resolved contract with these `facts`; without places."""
    if wrong := [*_task_and_target(contract, facts), *_windows(contract, facts)]:
        # With the wrong task every metric would be wrong as well, and without rows every length.
        return [*wrong, *_columns(contract, facts)]
    return [
        *_columns(contract, facts),
        *problems_with_patterns(contract),
        *check_metric(contract, written),
        *check_target(contract, written),
        *check_watched(contract, written),
        *check_floors(contract, written),
        *positive_needs_classes(contract, written),
        *check_batch_ramp(contract, written),
        *check_noise_scale(contract, written),
        *_ramps(contract, facts),
        *_mean(contract, facts),
        *_warmup(contract, facts),
        *_two_classes(contract, facts),
        *_positive(contract, facts),
        *check_balanced(contract, written),
        *problems_with_objective(contract),
        *_labels(contract, facts),
    ]


def problems_with_patterns(contract: Contract) -> list[Problem]:
    """Patterns must be supported by the linear-time regex engine."""
    if not isinstance(contract.data, TableData):
        return []
    found = (
        problem_with_pattern(column.pattern, f"data.columns.{as_key(name)}.pattern")
        for name, column in contract.data.columns.items()
        if column.pattern
    )
    return [problem for problem in found if problem]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _columns(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """Columns named by the contract must exist."""
    data = contract.data
    if not isinstance(data, TableData):
        return
    names = [column.name for column in facts.columns]
    named = [(f"data.exclude.{at}", name) for at, name in enumerate(data.exclude)]
    named += [(f"data.columns.{as_key(name)}", name) for name in data.columns]
    named += [(f"data.split.{field}", name) for field, name in split_columns(data.split)]
    if not isinstance(data.sampling, Uniform | Balanced | Blocks):
        named.append(("data.sampling.column", data.sampling.column))
    named += [
        (f"slices.{at}.column", part.column)
        for at, part in enumerate(contract.slices)
        if part.column
    ]
    for path, name in named:
        if name not in names and name != data.target:
            close = nearest_word(name, [*names, data.target])
            yield Problem(
                f"the data has no column {name!r}",
                path=path,
                found=name,
                expected=f"one of: {_some(names)}",
                fix=f"did you mean {close}?" if close else "choose one of the columns",
            )


def _task_and_target(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    data = contract.data
    target = facts.target
    if not isinstance(data, TableData):
        return
    kind = f"data.columns.{as_key(data.target)}.kind"
    if contract.task == "classification" and target.kind == "numbers":
        yield Problem(
            f"the target {data.target!r} is a number, but the task is classification",
            path="task",
            found=f"{target.distinct:,} different values",
            expected="a target of classes",
            fix=f"change task to regression, or {kind} to categorical",
        )
    if contract.task == "regression" and not all(map(_is_number, target.classes)):
        words = [label for label in target.classes if not _is_number(label)]
        yield Problem(
            f"the target {data.target!r} holds words, but the task is regression",
            path="task",
            found=_some(sorted(words)),
            expected="a target of numbers",
            fix="change task to classification, or name another target",
        )


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def _two_classes(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """Metrics that need a positive class need two classes."""
    count = len(facts.target.classes)
    if contract.task != "classification" or count == 2:
        return
    named = [("metric.name", contract.metric.name)]
    named += [(f"slices.{at}.metric", part.metric) for at, part in enumerate(contract.slices)]
    stopping = contract.training.early_stopping
    if isinstance(stopping, EarlyStopping):
        named.append(("training.early_stopping.metric", stopping.metric.removeprefix("val_")))
    for path, name in named:
        if name in METRICS and METRICS[name].classes == "two":
            prefix = "val_" if path.startswith("training.") else ""
            several = f"{name}_macro" if f"{name}_macro" in METRICS else "f1_macro"
            yield Problem(
                f"{name} needs two classes, but the target has {count}",
                path=path,
                found=name,
                expected="a metric for several classes",
                fix=f"change it to {prefix}{several}",
            )


def _positive(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    data = contract.data
    if not isinstance(data, TableData):
        return
    positive, classes = data.positive, sorted(facts.target.classes)
    if contract.task != "classification" or positive == "auto":
        return
    if len(classes) != 2:
        yield Problem(
            f"data.positive needs two classes, but the target has {len(classes)}",
            path="data.positive",
            found=positive,
            fix="remove positive",
        )
    elif positive not in classes:
        close = nearest_word(positive, classes)
        yield Problem(
            f"no row has the class {positive!r}",
            path="data.positive",
            found=positive,
            expected=f"one of: {', '.join(classes)}",
            fix=f"did you mean {close}?" if close else "choose one of the two",
        )


def _windows(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """A text must have two windows in each of its sources, or two windows or rows of documents."""
    data, model = contract.data, contract.model
    if not isinstance(data, TokenData) or not isinstance(model, Gpt):
        return
    tokens = {name: sum(lengths) for name, lengths in facts.documents.items()}
    shortest = min(tokens, key=tokens.__getitem__)
    most = (tokens[shortest] - 1) // 2
    if data.windows == "across" and model.context > most:
        yield Problem(
            f"the training text{f' of {shortest!r}' if shortest else ''} is shorter than two "
            "windows",
            path="model.context",
            found=f"{tokens[shortest]:,} tokens, windows of {model.context:,}",
            expected=f"at most {most:,}",
            fix="lower it, or give a longer text",
        )
    elif data.windows != "across" and text_rows(data, model.context, facts) < 2:
        what = "windows" if data.windows == "packed" else "rows"
        yield Problem(
            f"the training documents fill fewer than two {what}",
            path="model.context",
            found=f"{sum(tokens.values()):,} tokens, {what} of at most {model.context:,}",
            fix="lower it, or give more documents",
        )


def _ramps(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """Ramps must reach their full size within the run."""
    if isinstance(contract.model, Boosting | Linear | Pretrained):
        return
    rows = train_rows_of(contract, facts) * settled(contract.training.num_epochs)
    ramps = contract.training.ramps
    for name, ramp in (("batch", ramps.batch), ("sequence", ramps.sequence)):
        if ramp != "off" and ramp.samples > rows:
            yield Problem(
                "the ramp is longer than the run",
                path=f"training.ramps.{name}.samples",
                found=f"{ramp.samples:,}",
                expected=f"at most {rows:,}, which all epochs have",
                fix=f"change it to {max(1, rows // 10)}",
            )


def _warmup(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """The learning rate must reach its peak within its schedule."""
    if isinstance(contract.model, Boosting | Linear | Pretrained):
        return
    steps = scheduled_steps(contract, train_rows_of(contract, facts))
    warmup = contract.training.scheduler.warmup_steps
    if warmup > steps:
        yield Problem(
            "the warmup is longer than the run",
            path="training.scheduler.warmup_steps",
            found=f"{warmup:,}",
            expected=f"at most {steps:,}, the steps of the schedule",
            fix=f"change it to {max(1, steps // 20)}",
        )


def _mean(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    """A weight average needs at least two sets of weights."""
    average = contract.training.average
    if isinstance(contract.model, Boosting | Linear | Pretrained) or not isinstance(average, Swa):
        return
    rows = train_rows_of(contract, facts)
    ends, steps = epoch_ends(contract, rows), scheduled_steps(contract, rows)
    taken = len(taking_of(average, ends, steps).steps)
    if taken < 2:
        every = max(2 if isinstance(average.learning_rate, CyclicRate) else 1, steps // 50)
        oftener = average.model_copy(update={"every_n_steps": every})
        joined = "or" if len(taking_of(oftener, ends, steps).steps) >= 2 else "and"
        yield Problem(
            "there is nothing to take a mean of",
            path="training.average.every_n_steps",
            found=f"weights taken {many(taken, 'time')} in {many(steps, 'step')} of "
            f"{many(len(ends), 'epoch')}",
            expected="at least 2 times behind the start",
            fix=f"write every_n_steps: {every}, {joined} an earlier start",
        )


def _labels(contract: Contract, facts: DataFacts) -> Iterator[Problem]:
    model, count = contract.model, len(facts.target.classes)
    if not isinstance(model, Pretrained) or contract.task != "classification":
        return
    if model.num_labels != count:
        yield Problem(
            f"the model has {model.num_labels} labels, but the target has {count} classes",
            path="model.num_labels",
            found=str(model.num_labels),
            expected=str(count),
            fix=f"change it to {count}, or remove it",
        )
