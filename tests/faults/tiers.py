"""How much is tried: tier 0 in `make test` and `make test-extended`, tier 1 in `make test-all` and
`make faults`.

Tests marked `slow` run in tier 1 only; those marked `extended` are not in `make test`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import pytest
from _pytest.mark import ParameterSet

TIER = int(os.environ.get("TRAINWRIGHT_TIER", "0"))


def times(every_day: int, release: int) -> int:
    """How often something is tried in this tier."""
    return release if TIER else every_day


def also_slow(quick: Iterable[object], slow: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a test, of which tier 0 tries only the first. A tuple is several arguments."""
    return [*map(_one, quick), *(_one(values, pytest.mark.slow) for values in slow)]


def each(number: int, values: Sequence[object], start: int = 0) -> list[ParameterSet]:
    """Parameters of a test, of which tier 0 tries each so many."""
    return [
        _one(one) if at % number == start else _one(one, pytest.mark.slow)
        for at, one in enumerate(values)
    ]


def in_test(number: int, values: Sequence[object], start: int = 0) -> list[ParameterSet]:
    """Parameters of a test, of which `make test` tries each so many, and `make test-extended` the
    others."""
    return [
        _one(one) if at % number == start else _one(one, pytest.mark.extended)
        for at, one in enumerate(values)
    ]


def only(quick: object, values: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a test, of which tier 0 tries those that are in `quick`."""
    return [_one(one) if one in quick else _one(one, pytest.mark.slow) for one in values]  # type: ignore[operator]


def _one(values: object, *marks: pytest.MarkDecorator) -> ParameterSet:
    return pytest.param(*(values if isinstance(values, tuple) else (values,)), marks=marks)
