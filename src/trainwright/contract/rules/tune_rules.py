"""Rules on `tune`: which values a search may try, and what its method and storage can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.contract.document import Contract
from trainwright.contract.key_paths import join, nearest_word
from trainwright.contract.sections.data.data import fold_count
from trainwright.contract.sections.run_settings import Searched, Tune, Value
from trainwright.core.errors import Problem

FIXED = (
    *("tune", "name", "task", "purpose", "seed", "split_seed", "metric", "slices", "questions"),
    *("budget", "serving", "resume", "distributed", "tracking"),
    *("data.kind", "data.path", "data.train_path", "data.val_path", "data.test_path", "data.sql"),
    *("data.root", "data.split", "data.validation", "data.test", "data.target", "data.positive"),
    *("data.labels", "data.classes", "data.query", "data.group", "data.missing_target"),
)
"""Paths that are the same in all trials: with others they would have other rows, other answers or
another score."""

_DATABASES = ("postgresql://", "postgresql+psycopg://")


def check_search(contract: Contract, _written: frozenset[str]) -> Iterator[Problem]:
    """What no search can do, whatever the searched paths are."""
    section = contract.tune
    if section == "off":
        return
    axes = section.axes
    for path, axis in axes.items():
        place = join("tune.over", path)
        if fixed := next((one for one in FIXED if f"{path}.".startswith(f"{one}.")), ""):
            what = f"{fixed} is not searched: trials with other values of it cannot be compared"
            yield Problem(what, path=place, fix=f"remove {path} here, or write several contracts")
        yield from _check_values(axis, place)
        for other, values in axis.only_with.items():
            yield from _check_condition(other, values, axes, join(place, "only_with", other))
    yield from _check_cycles(axes)
    yield from _check_method(section, axes)
    if section.storage != "auto" and not section.storage.startswith(_DATABASES):
        what, fix = "machines share a study through PostgreSQL", "remove storage"
        expected = "auto, or a URL such as postgresql://host/database"
        yield Problem(what, "tune.storage", section.storage, expected, fix)
    if section.folds != "off" and section.stop != "off":
        what = "a trial is ended by the validations of one training, and folds have several"
        yield Problem(what, path="tune.stop", found=section.stop, fix="remove stop, or folds")
    if section.folds != "off" and (count := fold_count(contract.data)):
        what = "trials are scored on folds, or the contract is judged on folds: not both"
        found = f"{section.folds}, and data.split.folds {count}"
        yield Problem(what, path="tune.folds", found=found, fix="remove data.split.folds")


def _check_values(axis: Searched, place: str) -> Iterator[Problem]:
    """An interval with two ends, or a list."""
    low, high = axis.low, axis.high
    if axis.values:
        if (low, high, axis.scale) != ("none", "none", "linear"):
            what = "a list of values has no ends and no scale"
            yield Problem(what, path=place, fix="remove values, or low, high and scale")
    elif low == "none" or high == "none":
        what, found = "an interval has two ends, and a list has values", f"low {low}, high {high}"
        fix = "write for example {low: 0.01, high: 0.3}, or [0.01, 0.1, 0.3]"
        yield Problem(what, path=place, found=found, fix=fix)
    elif low >= high:
        found = f"low {low:g}, high {high:g}"
        yield Problem("low is less than high", join(place, "low"), found, fix="swap low and high")
    elif axis.scale == "log" and low <= 0:
        what = "a logarithmic scale has numbers above 0"
        yield Problem(what, join(place, "low"), f"{low:g}", fix="raise low, or remove scale")


def _check_condition(
    other: str, values: Value | tuple[Value, ...], axes: Mapping[str, Searched], place: str
) -> Iterator[Problem]:
    """The path of a condition is searched, and may have its values."""
    if other not in axes:
        near = nearest_word(other, list(axes))
        fix = f"write {near}" if near else f"search {other} too"
        yield Problem(f"{other} is not searched", place, expected=", ".join(axes), fix=fix)
        return
    axis = axes[other]
    for value in values if isinstance(values, tuple) else (values,):
        if axis.values:
            is_possible, expected = value in axis.values, ", ".join(map(str, axis.values))
        else:
            expected = f"{axis.low} to {axis.high}"
            is_number = not isinstance(value, bool | str) and "none" not in (axis.low, axis.high)
            is_possible = is_number and axis.bounds[0] <= float(value) <= axis.bounds[1]
        if not is_possible:
            what, fix = f"{other} never has this value", "write one of its values"
            yield Problem(what, place, str(value), expected, fix)


def _check_cycles(axes: Mapping[str, Searched]) -> Iterator[Problem]:
    """No path waits for itself."""
    waiting = {path: set(axis.only_with) & axes.keys() for path, axis in axes.items()}
    while ready := [path for path, others in waiting.items() if not others & waiting.keys()]:
        for path in ready:
            del waiting[path]
    if waiting:
        what = "each of these paths is searched only with another of them"
        path = join("tune.over", next(iter(waiting)), "only_with")
        yield Problem(what, path, ", ".join(waiting), fix="remove only_with of one of them")


def _check_method(section: Tune, axes: Mapping[str, Searched]) -> Iterator[Problem]:
    """What a grid and CMA-ES cannot search."""
    if section.method == "grid":
        for path in (path for path, axis in axes.items() if not axis.values):
            what, fix = "a grid combines lists", "write a list, or tune.method: tpe"
            yield Problem(what, join("tune.over", path), "an interval", fix=fix)
    if section.method == "cmaes":
        for path in (path for path, axis in axes.items() if axis.values or axis.only_with):
            what = "CMA-ES searches intervals of numbers, all of them in every trial"
            fix = "write an interval without only_with, or tune.method: tpe"
            yield Problem(what, path=join("tune.over", path), fix=fix)
        if section.storage != "auto":
            what = "CMA-ES keeps its state as a pickle in the storage that machines share"
            yield Problem(what, "tune.method", "cmaes", fix="write tune.method: tpe")
