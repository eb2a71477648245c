"""The target of the training rows: its classes and the positive one, or mean and deviation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import polars as pl

from trainwright.core.errors import DataMistake, Problem
from trainwright.data.base.categories import count_labels
from trainwright.data.base.messages import nearest_option, quoted
from trainwright.data.base.row_storage import slices_of
from trainwright.data.columns.class_target import Classes, LabelType
from trainwright.data.columns.target import NO_POSITIVE, Target

if TYPE_CHECKING:
    from trainwright.data.columns.number_target import Numbers

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")

_POSITIVE = frozenset({"yes", "true", "positive", "y", "t", "ja", "oui", "si", "sí", "sì", "да"})
_NEGATIVE_OF_ONE = frozenset({"0", "-1"})


def fit_target(
    train: pl.Series,
    task: Literal["classification", "regression"],
    positive: str,
    written: LabelType = "text",
    order: tuple[str, ...] = (),
) -> Target:
    """Fit the target of the training rows. `positive` names a class, or is `auto`:
    `choose_positive`; `written` is the original type of the labels, `order` their order from the
    lowest on, if they have one.

    Raises:
        DataMistake: the positive class does not exist, the order names other classes, or a number
            is not one.
    """
    if task == "regression":
        return _fit_numbers(train)
    counts = dict(sorted(count_labels(train).items()))
    if order:
        counts = _ordered(counts, train.name, order)
    names = tuple(counts)
    if len(names) < 2:
        raise DataMistake(
            Problem(
                "the training rows hold one class only",
                path=train.name,
                found=quoted(names),
                expected="at least two classes",
                fix="use a stratified split, or add rows of other classes",
            )
        )
    if not _are_all(written, names):
        written = "text"
    code = _positive(counts, train.name, positive)
    return Classes(train.name, names, code, written, ordered=bool(order))


def _are_all(written: LabelType, names: tuple[str, ...]) -> bool:
    """Are the classes of this type, also after other spellings were put in their place?"""
    match written:
        case "integer":
            return all(map(_INTEGER.fullmatch, names))
        case "boolean":
            return set(names) <= {"true", "false"}
        case "text":
            return True


def _ordered(counts: dict[str, int], column: str, order: tuple[str, ...]) -> dict[str, int]:
    absent = [name for name in order if name not in counts]
    unnamed = [name for name in counts if name not in order]
    if absent or unnamed:
        said = [f"no training row has {quoted(absent)}"] if absent else []
        said += [f"it lacks {quoted(unnamed)}"] if unnamed else []
        raise DataMistake(
            Problem(
                "the order names other classes than the training rows have",
                path="data.order",
                found="; ".join(said),
                expected=f"each class of {column!r} once: {quoted(list(counts), 10)}",
                fix="name these classes from the lowest to the highest in data.order",
            )
        )
    return {name: counts[name] for name in order}


def choose_positive(classes: Mapping[str, int]) -> tuple[str, str]:
    """Positive class of two, given their row counts, and the reason: the one named yes, true or
    positive, or 1 against 0 or -1; otherwise the rarer one."""
    named = [name for name in classes if name.lower() in _POSITIVE]
    if "1" in classes and any(name in _NEGATIVE_OF_ONE for name in classes):
        named.append("1")
    if len(named) == 1:
        return named[0], "the positive class by its name"
    rarer = min(classes, key=lambda name: (classes[name], name))
    share = classes[rarer] / max(1, sum(classes.values()))
    return rarer, f"the rarer class, {share:.1%} of the rows"


def label_type(dtype: pl.DataType, *, untyped: bool) -> LabelType:
    """Label type from the column's type. `untyped`: text may be numbers, as in CSV; whether they
    are integers is decided once all are known."""
    if dtype == pl.Boolean:
        return "boolean"
    is_number = untyped if dtype == pl.String else dtype.is_numeric()
    return "integer" if is_number else "text"


def _fit_numbers(train: pl.Series) -> Numbers:
    """Mean and standard deviation, accumulated by chunk."""
    # Imported here: classes have no use for it.
    from trainwright.data.columns.number_target import Numbers

    plain = Numbers(train.name, 0.0, 1.0)
    parts = list(slices_of(train))
    mean = sum(float(plain.encode(part).sum()) for part in parts) / len(train)
    squares = sum(float(((plain.encode(part) - mean) ** 2).sum()) for part in parts)
    return Numbers(train.name, mean, math.sqrt(squares / len(train)) or 1.0)


def _positive(counts: dict[str, int], column: str, positive: str) -> int:
    names = list(counts)
    if positive == "auto":
        return names.index(choose_positive(counts)[0]) if len(names) == 2 else NO_POSITIVE
    if positive in names:
        return names.index(positive)
    near = nearest_option(positive, names)
    raise DataMistake(
        Problem(
            f"no training row has the positive class {positive!r}",
            path="data.positive",
            expected=quoted(names, 10),
            fix=f"did you mean {near!r}?" if near else f"name a class of {column!r}",
        )
    )
