"""What two runs left, compared."""

from __future__ import annotations

from collections.abc import Mapping


def differences(one: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Names of the components that are not equal."""
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]
