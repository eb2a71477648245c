"""What the fix of a problem says to do to a contract, done."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

from trainwright.contract.overrides import read_settings
from trainwright.core.errors import Problem

Values = dict[str, Any]

_ROOTS = "data|training|model|metric|budget|resume|tracking|distributed|task|seed|slices"
_PATH = rf"(?:{_ROOTS})(?:\.(?:\"[^\"]+\"|[\w#]+))*"
_VALUE = r"(\{.*\}|\[.*\]|\"[^\"]*\"|[\w.%+-]*\w)"


def followed(contract: Values, problem: Problem) -> Iterator[tuple[str, Values]]:
    """Each alternative of a fix that can be done to a contract, and the contract after it."""
    for text in re.split(
        r"(?:,? or |; |, (?=remove|write|lower|merge|set))(?![^{]*\})", problem.fix
    ):
        for path, value in _edits(text, problem, contract):
            changed = copy.deepcopy(contract)
            _put(changed, path, value)
            yield text, changed


@final
@dataclass(frozen=True, slots=True)
class _Renamed:
    """A key that has another name."""

    name: str


_GONE = object()


def _edits(text: str, problem: Problem, contract: Values) -> Iterator[tuple[list[str], object]]:
    here = _parts(problem.path)
    if found := re.search(rf"(?<![\w.])({_PATH})(?:: | to |=|, for example ){_VALUE}", text):
        value = found[2]
        if value == "one":
            value = re.split(r" as | or ", problem.found)[1]
        yield _parts(found[1]), _value(value)
    elif found := re.search(r"change it to " + _VALUE, text):
        yield here, _value(found[1])
    elif found := re.search(r"did you mean '?([^'?]+)'?\?", text):
        yield here, _Renamed(found[1]) if "unknown key" in problem.message else _value(found[1])
    elif found := re.search(r"for example ([\d.]+)$", text):
        yield here, _value(found[1])
    elif found := re.search(rf"remove ({_PATH}|it|\w+)$", text):
        yield _named(found[1], here, contract), _GONE
    elif found := re.search(rf"(?:write|change|use) (\w+)(?:: | to ){_VALUE}", text):
        yield _named(found[1], here, contract), _value(found[2])
    elif found := re.search(rf"lower ({_PATH})", text):
        yield _parts(found[1]), int(_at(contract, _parts(found[1]))) // 4
    elif found := re.search(r"left out: (data\.reading\.bad_records)", text):
        yield _parts(found[1]), 5
    elif "add the spelling to data.missing_values" in text:
        yield ["data", "missing_values"], ["", *re.findall(r"'([^']+)'", problem.found)]


def _named(name: str, here: list[str], contract: Values) -> list[str]:
    """The path of a key that a fix calls by its name: here, beside, inside, or at the root."""
    if name == "it":
        return here
    if "." in name or name in _ROOTS.split("|"):
        return _parts(name)
    inside = _at(contract, here)
    if isinstance(inside, dict):
        return [*here, name]
    return here if here[-1] == name else [*here[:-1], name]


def _parts(path: str) -> list[str]:
    (setting,) = read_settings([f"{path}=0"])
    return list(setting.parts)


def _value(text: str) -> object:
    if text.startswith("%"):
        return text
    (setting,) = read_settings([f"a={text}"])
    return setting.written.value


def _at(values: Any, path: list[str]) -> Any:
    for part in path:
        values = values[int(part)] if isinstance(values, list) else values.get(part)
        if values is None:
            return None
    return values


def _put(values: Any, path: list[str], value: object) -> None:
    for part in path[:-1]:
        if isinstance(values, list):
            values = values[int(part)]
            continue
        if not isinstance(values.get(part), dict | list):
            values[part] = {}
        values = values[part]
    if isinstance(values, list):
        values[int(path[-1])] = value
    elif isinstance(value, _Renamed):
        values[value.name] = values.pop(path[-1])
    elif value is _GONE:
        del values[path[-1]]
    else:
        values[path[-1]] = value
