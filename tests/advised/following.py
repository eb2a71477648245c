"""What the fix of a problem says to do to a contract, done."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from trainwright.contract.reading.overrides import read_settings
from trainwright.core.errors import Problem

Values = dict[str, Any]

_ROOTS = (
    "questions|serving|data|training|model|metric|budget|resume|tracking|distributed|task|seed"
    "|slices|purpose|tune"
)
_PATH = rf"(?:{_ROOTS})(?:\.(?:\"[^\"]+\"|[\w#]+))*"
_VALUE = r"(\{.*\}|\[.*\]|\"[^\"]*\"|[\w.%+-]*\w)"


def followed(contract: Values, problem: Problem) -> Iterator[tuple[str, Values]]:
    """Each alternative of a fix that can be done to a contract, and the contract after it."""
    for text in re.split(
        r"(?:,? or |; |, (?=remove|write|lower|merge|set))(?![^{]*\})", problem.fix
    ):
        for path, value in _edits(text, problem, contract):
            changed = copy.deepcopy(contract)
            if isinstance(value, _Renamed) and "." in value.name:
                _put(changed, _parts(value.name), _at(changed, path))
                value = _GONE
            _put(changed, path, value)
            yield text, changed


def removed(contract: Values, path: Sequence[str]) -> Values:
    """The contract without a key, or without an item of a list."""
    changed = copy.deepcopy(contract)
    _put(changed, list(path), _GONE)
    return changed


@final
@dataclass(frozen=True, slots=True)
class _Renamed:
    """A key that has another name."""

    name: str


_GONE = object()


_FOR_A_PERSON = re.compile(
    r"\b(?:both|NAME|COLUMN|and an|and write|and remove|in the place|low, high)\b|\.\.\."
)
_NAMED = re.compile(rf"(?<![\w.])({_PATH})(?:: | to |=|, for example ){_VALUE}")
_HERE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"change it to {_VALUE}",
        r"choose (?!one\b)(\w+)$",
        r"(?:put it in|remove the) (?:brackets|quotes): (.+)$",
        r"^write (\{.*\})$",
        r"^name them by a pattern: (.+)$",
        r"(?:for example|write|choose) ([\d.]+|\[.*\]|off|true|fp32|val_loss)$",
    )
)
_BESIDE = re.compile(
    rf"(?:write|change|use|add|for example:?|range) (\w+)(?:: | to )(?!data\.exclude){_VALUE}"
)
_GOES = re.compile(rf"remove ({_PATH}|it|(?!one$)\w+)(?:$|: )")
_MEANT = re.compile(r"did you mean '?([^'?]+)'?\?")


def _edits(text: str, problem: Problem, contract: Values) -> Iterator[tuple[list[str], object]]:
    here = _parts(problem.path)
    if _FOR_A_PERSON.search(text):
        return
    if not here and "data." not in text:
        return
    if found := _NAMED.search(text):
        value = found[2]
        if value == "one":
            value = re.split(r" as | or ", problem.found)[1]
        yield _parts(found[1]), _value(value)
    elif found := next((one for one in (p.search(text) for p in _HERE) if one), None):
        yield here, _value(found[1])
    elif found := re.search(r"rename (\w+) to (\w+)", text):
        yield _named(found[1], here, contract), _Renamed(found[2])
    elif found := _MEANT.search(text):
        yield here, _Renamed(found[1]) if _is_about_a_name(problem) else _value(found[1])
    elif found := _GOES.search(text):
        yield _named(found[1], here, contract), _GONE
    elif found := _BESIDE.search(text):
        yield _named(found[1], here, contract), _value(found[2])
    else:
        yield from _edits_of_problems(text, problem, contract)


def _edits_of_problems(
    text: str, problem: Problem, contract: Values
) -> Iterator[tuple[list[str], object]]:
    """What is said in the words of one problem."""
    if found := re.search(r"change (\w+\.\w+) to (\w+)", text):
        yield [*_parts(problem.path)[:1], *found[1].split(".")], _value(found[2])
    elif found := re.search(rf"lower ({_PATH})", text):
        path = _parts(found[1])
        yield path, max(2, int(_at(contract, path)) // 30)
    elif found := re.search(r"be skipped: (data\.reading\.bad_records)", text):
        yield _parts(found[1]), 5
    elif "add the spelling to data.missing_values" in text and problem.found:
        yield ["data", "missing_values"], ["", *re.findall(r"'([^']+)'", problem.found)]


def _is_about_a_name(problem: Problem) -> bool:
    return "unknown key" in problem.message or "no such kind" in problem.message


def _named(name: str, here: list[str], contract: Values) -> list[str]:
    """The path of a key that a fix calls by its name: here, beside, inside, or at the root."""
    if name == "it":
        return here
    if "." in name or name in _ROOTS.split("|"):
        return _parts(name)
    if name in here[:-1]:
        return here[: here.index(name) + 1]
    inside = _at(contract, here)
    if isinstance(inside, dict) and name != here[-1]:
        return [*here, name]
    if isinstance(inside, list) and name in inside:
        return [*here, str(inside.index(name))]
    return here if here[-1] == name else [*here[:-1], name]


def _parts(path: str) -> list[str]:
    if not path:
        return []
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
        if value is _GONE:
            del values[int(path[-1])]
        else:
            values[int(path[-1])] = value
    elif isinstance(value, _Renamed):
        values[value.name] = values.pop(path[-1])
    elif value is _GONE:
        values.pop(path[-1], None)
    else:
        values[path[-1]] = value
