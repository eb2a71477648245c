"""Errors for a checkpoint that does not match the object to restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from trainwright.core.errors import Mistake, Problem

_SHOWN = 5


def check_same_names(what: str, expected: Iterable[str], found: Iterable[str]) -> None:
    """Raise `Mistake` unless both have the same names."""
    wanted, given = set(expected), set(found)
    problems = [
        _problem(what, f"{text} {_list(names)}")
        for text, names in (("lacks", wanted - given), ("has beside", given - wanted))
        if names
    ]
    if problems:
        raise Mistake(problems)


def check_same_layout(
    what: str, expected: Mapping[str, Tensor], found: Mapping[str, Tensor]
) -> None:
    """Raise `Mistake` unless both have the same names, dtypes and shapes."""
    check_same_names(what, expected, found)
    problems = [
        _problem(what, f"{name}: {_layout(found[name])}", _layout(expected[name]))
        for name in expected
        if found[name].dtype != expected[name].dtype or found[name].shape != expected[name].shape
    ]
    if problems:
        raise Mistake(problems[:_SHOWN])


def _layout(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def _list(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _problem(what: str, found: str, expected: str = "") -> Problem:
    return Problem(
        f"the checkpoint is of another {what}",
        found=f"the checkpoint {found}" if not expected else found,
        expected=expected,
        fix="resume with the contract and the version that the run was started with",
    )
