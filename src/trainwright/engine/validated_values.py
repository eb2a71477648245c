"""Validation results as named floats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainwright.core.errors import Mistake, Problem


def read_values(given: object, watched: str) -> Mapping[str, float]:
    """Validation results by name, as floats; 0-d torch and NumPy values are accepted.

    Raises:
        Mistake: not a mapping, or a value is not a number.
    """
    if not isinstance(given, Mapping):
        raise _mistake(f"`validate` returned {_describe(given)}, not a mapping", given, watched)
    values: dict[str, float] = {}
    for name, value in given.items():
        try:
            values[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise _mistake(f"the value {name!r} is not a number", value, watched) from None
    return MappingProxyType(values)


def _describe(given: object) -> str:
    return "nothing" if given is None else "a single value"


def _mistake(message: str, found: object, watched: str) -> Mistake:
    return Mistake(
        Problem(
            message,
            path="Job.validate",
            found=f"{type(found).__name__} {found!r}"[:160] if found is not None else "None",
            expected=f"a mapping of names to numbers, with {watched!r} among them",
            fix=f'end it with: return {{"{watched}": value}}',
        )
    )
