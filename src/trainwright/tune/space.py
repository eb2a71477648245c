"""What a search may change of a contract: its paths, their values, and the mistakes in both."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast, final

from trainwright.contract.key_paths import as_key, names_of
from trainwright.contract.reading.read_contract import Document, placed, read_contract
from trainwright.contract.sections.run_settings import Searched, Tune, Value
from trainwright.core.errors import ContractMistake, Problem
from trainwright.core.files import Json
from trainwright.run.request import Request

if TYPE_CHECKING:
    from optuna.trial import Trial

Params = Mapping[str, Value]
"""Values of a trial by their path."""

NO_SEARCH = "tune=off"
"""The override that leaves the contract of one training."""

NO_SINKS = "tracking.sinks=[]"
"""The override of a trial: the sinks of the study read its trials too."""


@final
@dataclass(frozen=True, slots=True)
class Axis:
    """A path that is searched, with its values."""

    path: str
    section: Searched

    @property
    def extremes(self) -> tuple[Value, ...]:
        """Its values, or both ends of its interval."""
        return self.section.values or self.section.bounds

    def is_active(self, params: Params) -> bool:
        """Is it searched with these values?"""
        return all(
            path in params and params[path] in (one if isinstance(one, tuple) else (one,))
            for path, one in self.section.only_with.items()
        )

    def suggest(self, trial: Trial) -> Value:
        """The value that Optuna gives to a trial."""
        if self.section.values:
            return cast("Value", trial.suggest_categorical(self.path, self.section.values))
        low, high = self.section.bounds
        is_log = self.section.scale == "log"
        if isinstance(low, int) and isinstance(high, int):
            return trial.suggest_int(self.path, low, high, log=is_log)
        return trial.suggest_float(self.path, low, high, log=is_log)


@final
@dataclass(frozen=True, slots=True)
class Space:
    """The searched paths; those that depend on others follow them."""

    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, section: Tune) -> Space:
        """That of a contract, whose rules were checked."""
        waiting = section.axes
        ordered = list[Axis]()
        while waiting:
            ready = [
                path for path, one in waiting.items() if not waiting.keys() & one.only_with.keys()
            ]
            assert ready, "a rule of the contract refuses paths that wait for each other"
            ordered += [Axis(path, waiting.pop(path)) for path in ready]
        return cls(tuple(ordered))

    def suggest(self, trial: Trial) -> dict[str, Value]:
        """The values that Optuna gives to a trial."""
        params = dict[str, Value]()
        for axis in self.axes:
            if axis.is_active(params):
                params[axis.path] = axis.suggest(trial)
        return params

    def combinations(self) -> Iterator[dict[str, Value]]:
        """Every combination of lists, each once, the last path changing first."""
        seen = set[str]()
        for values in itertools.product(*(axis.section.values for axis in self.axes)):
            params = dict[str, Value]()
            for axis, value in zip(self.axes, values, strict=True):
                if axis.is_active(params):
                    params[axis.path] = value
            if (key := json.dumps(params, sort_keys=True)) not in seen:
                seen.add(key)
                yield params

    def count(self, most: int) -> float:
        """Number of combinations, of which at most so many are counted; infinite with an
        interval."""
        if all(axis.section.values for axis in self.axes):
            return sum(1 for _ in itertools.islice(self.combinations(), most))
        return math.inf

    def values_of(self, contract: Json) -> dict[str, Value]:
        """The values of a decided contract, if all of them may be tried; else none."""
        params = dict[str, Value]()
        for axis in self.axes:
            if not axis.is_active(params):
                continue
            value = contract
            for part in names_of(axis.path):
                value = value.get(part) if isinstance(value, Mapping) else None
            if not isinstance(value, bool | int | float | str):
                return {}
            if axis.section.values:
                is_inside = value in axis.section.values
            else:
                low, high = axis.section.bounds
                is_inside = not isinstance(value, bool | str) and low <= value <= high
            if not is_inside:
                return {}
            params[axis.path] = value
        return params


def overrides_of(params: Params) -> tuple[str, ...]:
    """Values as overrides of the contract; the kind of a model first, as it clears the others."""
    ordered = sorted(params.items(), key=lambda pair: pair[0] != "model.kind")
    return tuple(f"{path}={json.dumps(value)}" for path, value in ordered)


def read_space(request: Request) -> tuple[Document, Tune, Space]:
    """The contract of a search, what it asks for and what it searches.

    Raises:
        ContractMistake: there is no `tune` in it, or a path or a value in it is wrong.
    """
    document = read_contract(request.contract, request.overrides)
    section = document.contract.tune
    if section == "off":
        problem = Problem(
            "the contract has nothing to search",
            path="tune",
            fix="add for example tune: {over: {model.learning_rate: {low: 0.01, high: 0.3}}}",
        )
        raise ContractMistake(placed([problem], document.source))
    if problems := list(problems_of_space(request, document, section)):
        raise ContractMistake(placed(problems, document.source))
    return document, section, Space.of(section)


def problems_of_space(request: Request, document: Document, section: Tune) -> Iterator[Problem]:
    """What is wrong with the searched paths: each is tried in the contract with its first and last
    values."""
    for axis in Space.of(section).axes:
        parents = {
            path: values[0] if isinstance(values, tuple) else values
            for path, values in axis.section.only_with.items()
        }
        path = f"tune.over.{as_key(axis.path)}"
        for value in axis.extremes:
            overrides = overrides_of({**parents, axis.path: value})
            try:
                read_contract(request.contract, (*request.overrides, NO_SEARCH, *overrides))
            except ContractMistake as mistake:
                problem = mistake.problems[0]
                place = document.source.place_of(path)
                found = problem.found or json.dumps(value)
                yield replace(problem, path=path, found=found, place=place)
                break
