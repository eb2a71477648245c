"""Errors of the contract's shape, said in the contract's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args, get_origin

from pydantic import BaseModel, ValidationError

from trainwright.contract.key_paths import join, nearest_word
from trainwright.contract.reading.schema import (
    AnnotationShape,
    Spot,
    annotation_shape,
    choices,
    expected,
    known_paths,
    locate,
)
from trainwright.contract.reading.yaml_reader import Plain, yaml_value_text
from trainwright.contract.sections.model import sections
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.core.errors import Problem

_EXAMPLES: Mapping[str, str] = {
    "data": "add for example:\n        data:\n          path: data.csv",
    "model": "add for example:\n        model:\n          kind: boosting",
    "model.kind": "add for example: kind: boosting",
}
_RANGES = frozenset(
    {"greater_than", "greater_than_equal", "less_than", "less_than_equal", "too_short", "too_long"}
)


def problems_of_shape(root: type[BaseModel], value: Plain, error: ValidationError) -> list[Problem]:
    """One problem for each place where `value` is not what `root` asks for, without places."""
    problems: dict[str, Problem] = {}
    for detail in error.errors(include_url=False, include_context=False):
        spot = locate(root, detail["loc"], value)
        if spot is not None:
            problem = _problem(root, spot, detail["type"])
            problems.setdefault(problem.path, problem)
    if not problems:
        # No member of a union is near enough to say what is missing in it.
        first = error.errors(include_url=False, include_context=False)[0]["loc"]
        path = next((str(part) for part in first), "")
        problems[path] = Problem("the value has the wrong type", path=path, fix="see the reference")
    # A list whose items are wrong is also counted as too short: only the items are worth saying.
    return [
        problem
        for path, problem in problems.items()
        if not any(other.startswith(f"{path}.") for other in problems)
    ]


def _problem(root: type[BaseModel], spot: Spot, kind: str) -> Problem:
    if kind == "extra_forbidden":
        return _unknown_key(root, spot)
    if kind == "missing" and not isinstance(spot.value, list):
        return Problem(
            f"the key {str(spot.path[-1])!r} is missing",
            path=spot.text,
            expected=expected(spot.shape),
            fix=_EXAMPLES.get(spot.text, f"add {spot.path[-1]}"),
        )
    if spot.shape.tags and isinstance(spot.value, dict):
        return _unknown_member(spot, spot.value)
    return _wrong_value(spot, kind)


def _unknown_key(root: type[BaseModel], spot: Spot) -> Problem:
    key = str(spot.path[-1])
    assert spot.shape.section is not None, "only sections forbid keys"
    here = tuple(spot.shape.section.model_fields)
    close = nearest_word(key, here)
    elsewhere = [
        path for path in known_paths(root) if path.rpartition(".")[2] == key and path != spot.text
    ]
    is_own = spot.text in known_paths(root)
    if elsewhere and not (is_own and _is_no_network(spot.shape.section)):
        fix = f"did you mean {' or '.join(elsewhere[:3])}? Move it there"
    elif is_own:
        fix = f"remove it: it belongs to another kind of {spot.path[-2]}{_kinds_with_key(spot)}"
    elif close:
        fix = f"did you mean {close}?"
    else:
        last = {path.rpartition(".")[2]: path for path in reversed(known_paths(root))}
        far = nearest_word(key, tuple(last))
        fix = f"did you mean {last[far]}?" if far else "remove it, or choose one of the known keys"
    return Problem(
        f"unknown key {key!r}", path=spot.text, expected=f"one of: {', '.join(here)}", fix=fix
    )


def _is_no_network(section: type[BaseModel]) -> bool:
    """Is it a model without a loop, which nothing under `training` reaches that networks have?"""
    return issubclass(section, ModelSection) and section.traits.trained_by != "loop"


def _kinds_with_key(spot: Spot) -> str:
    """Kinds of model that have a key."""
    if spot.path[:-1] != ("model",):
        return ""
    key = str(spot.path[-1])
    return f" ({', '.join(kind for kind, one in sections().items() if key in one.model_fields)})"


def _tag_key(spot: Spot) -> str:
    """The key that chooses a member of the family."""
    first = next(iter(spot.shape.tags.values())).section
    return "name" if first is not None and "name" in first.model_fields else "kind"


def _unknown_member(spot: Spot, value: Mapping[str, Plain]) -> Problem:
    family = spot.shape.tags
    key = _tag_key(spot)
    path = join(spot.text, key)
    if key not in value:
        return Problem(
            f"the key {key!r} is missing",
            path=path,
            expected=f"one of: {', '.join(family)}",
            fix=_EXAMPLES.get(path, f"add for example: {key}: {next(iter(family))}"),
        )
    found = yaml_value_text(value[key])
    close = nearest_word(found, tuple(family))
    return Problem(
        f"unknown {key} {found!r}",
        path=path,
        expected=f"one of: {', '.join(family)}",
        fix=f"did you mean {close}?" if close else "choose one of them",
    )


def _wrong_value(spot: Spot, kind: str) -> Problem:
    wanted = expected(spot.shape)
    if spot.value is None:
        quoted = f'write {wanted}, in quotes if it looks like nothing (null, ~), or "" for none'
        message = "the value is empty"
        fix = quoted if wanted == "text" else f"write {wanted}, or remove the key"
    elif kind in _RANGES:
        message, fix = "the value is out of range", f"write {wanted}"
    else:
        message, fix = _wrong_kind(spot, wanted)
    return Problem(
        message,
        path=spot.text,
        found=yaml_value_text(spot.value),
        expected=wanted,
        fix=fix,
    )


def _wrong_kind(spot: Spot, wanted: str) -> tuple[str, str]:
    """The message and the fix for a value of a wrong type or an unknown word."""
    types = {member.annotation for member in spot.shape.members}
    found = yaml_value_text(spot.value)
    match spot.value:
        case str() as word if spot.shape.tags:
            close = nearest_word(word, tuple(spot.shape.tags))
            key = _tag_key(spot)
            return "the value has the wrong type", f"write {{{key}: {close or '...'}}}"
        case str() as word if _is_item(spot.shape, word):
            return "the value has the wrong type", f"put it in brackets: [{found}]"
        case str() as word:
            known = choices(spot.shape)
            close = nearest_word(word, known)
            if bool in types:
                return "the value has the wrong type", "write true or false"
            if types & {int, float} and _reads_as_number(word):
                return "the number is written as text", f"remove the quotes: {word.strip()}"
            if close:
                return f"unknown value {word!r}", f"did you mean {close}?"
            message = f"unknown value {word!r}" if known else "the value has the wrong type"
            return message, f"write {wanted}"
        case float() as number if int in types and number.is_integer():
            return "a whole number is wanted", f"write {int(number)}"
        case int() | float() if types & {int, float} and not isinstance(spot.value, bool):
            return "the value is out of range", f"write {wanted}"
        case bool() | int() | float() if str in types:
            return "the value has the wrong type", f'put it in quotes: "{found}"'
        case _ if "off" in choices(spot.shape) and spot.value is False:
            return "the value has the wrong type", "write off"
        case _:
            return "the value has the wrong type", f"write {wanted}"


def _is_item(shape: AnnotationShape, word: str) -> bool:
    """Whether the word would do as the only item of the list that is wanted."""
    lists = (get_args(member.annotation) for member in shape.members if _is_list(member))
    items = [annotation_shape(arguments[0]) for arguments in lists if arguments[-1] is Ellipsis]
    kinds = {member.annotation for item in items for member in item.members}
    return (
        str in kinds
        or (bool(kinds & {int, float}) and _reads_as_number(word))
        or any(word in choices(item) for item in items)
    )


def _is_list(shape: AnnotationShape) -> bool:
    return get_origin(shape.annotation) is tuple


def _reads_as_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
