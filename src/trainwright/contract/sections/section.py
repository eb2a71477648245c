"""What every section of a contract is: frozen values, unknown keys refused, nothing built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field

Auto = Literal["auto"]
"""A value that the plan decides; the plan keeps what it chose and why."""

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1)]

T = TypeVar("T")


class Section(BaseModel):
    """A part of the contract. The text under each field is its reference documentation."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        defer_build=True,
    )


def settled(value: T | Auto) -> T:
    """The value of a field that a plan has decided; `auto` here is a programmer's mistake."""
    assert value != "auto", "objects are built from the plan, where nothing is `auto`"
    return value


def tagged_by(key: str, default: str) -> Discriminator:
    """Choose a member of a family by its `key`; a mapping that leaves it out is the `default`."""

    def tag(value: Any) -> str:
        if isinstance(value, Mapping):
            return str(value.get(key, default))
        return str(getattr(value, key, "missing"))

    return Discriminator(tag)
