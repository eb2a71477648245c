"""Read the file that names the classes of a zero-shot classification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from trainwright.contract.reading.read_contract import ContractSource, placed
from trainwright.contract.reading.validation_errors import problems_of_shape
from trainwright.contract.reading.yaml_reader import read_yaml
from trainwright.contract.rules.target.metric_rules import metric_problems, value_problems
from trainwright.contract.sections.metric import METRICS
from trainwright.contract.sections.zero_shot import ZeroShot
from trainwright.core.errors import ContractMistake, Place, Problem

_TASK = "classification"


def read_zero_shot(file: Path) -> ZeroShot:
    """Classes, templates and clauses of a YAML file; the metric is decided.

    Raises:
        ContractMistake: every problem of its text, or else of its shape, or else of its values.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ContractMistake(
            Problem(
                "the classes cannot be read",
                path="--zero-shot",
                found=f"{file}: {error.strerror or error}",
                expected="a YAML file with the keys classes and templates",
                fix="name such a file",
            )
        ) from None
    written = read_yaml(data, str(file))
    if not isinstance(written.value, dict):
        raise ContractMistake(
            Problem(
                "the classes are not a mapping",
                expected="lines such as 'classes: [cat, dog]'",
                fix="write classes and templates",
                place=Place(str(file), 1),
            )
        )
    source = ContractSource(
        str(file), data.decode("utf-8-sig"), file.absolute().parent, written.places
    )
    try:
        section = ZeroShot.model_validate_json(json.dumps(written.value, allow_nan=False))
    except ValidationError as error:
        problems = problems_of_shape(ZeroShot, written.value, error)
        raise ContractMistake(placed(problems, source)) from None
    if section.metric.name == "auto":
        metric = section.metric.model_copy(update={"name": "accuracy"})
        section = section.model_copy(update={"metric": metric})
    if broken := [*section.own_problems(), *_metric_problems(section)]:
        raise ContractMistake(placed(broken, source))
    return section


def _metric_problems(section: ZeroShot) -> Iterator[Problem]:
    """Metric and floors are of a classification, with values that they can take."""
    metric = section.metric
    yield from _of_classes(metric.name, "metric.name", len(section.classes))
    if metric.name in METRICS and not isinstance(metric.target, str):
        yield from value_problems(metric.name, metric.target, "metric.target")
    for at, part in enumerate(section.slices):
        name = metric.name if part.metric == "auto" else part.metric
        if part.metric != "auto":
            yield from _of_classes(name, f"slices.{at}.metric", len(section.classes))
        if name in METRICS and part.floor != "none":
            yield from value_problems(name, part.floor, f"slices.{at}.floor")


def _of_classes(name: str, path: str, count: int) -> Iterator[Problem]:
    problems = list(metric_problems(name, path, _TASK))
    yield from problems
    fact = METRICS.get(name)
    if problems or fact is None:
        return
    if (fact.classes == "two" and count != 2) or fact.of != "any":
        yield Problem(
            f"{name} is not measured on {count} classes without an order",
            path=path,
            found=name,
            expected="accuracy, balanced_accuracy, f1_macro, log_loss or another metric of classes",
            fix="write accuracy",
        )
