"""Choices of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar, final

from pydantic import BaseModel

from trainwright.core.files import Json

S = TypeVar("S", bound=BaseModel)

Chosen = dict[str, tuple[Json, str]]
"""Field -> (value, reason)."""


@final
@dataclass(frozen=True, slots=True)
class Choice:
    """Value chosen for an `auto` of the contract, and its reason. `measured` are the numbers of a
    choice by measurement."""

    path: str
    value: Json
    reason: str
    measured: Mapping[str, Json] = field(default_factory=dict)

    def to_json(self) -> Json:
        """The fields by name; `measured` if present."""
        numbers = {"measured": dict(self.measured)} if self.measured else {}
        return {"path": self.path, "value": self.value, "reason": self.reason, **numbers}


@final
@dataclass(slots=True)
class Choosing:
    """The choices made so far. `take` changes one section by its `auto` fields only."""

    made: list[Choice] = field(default_factory=list)

    def take(self, section: S, prefix: str, chosen: Chosen) -> S:
        """`section` with each `auto` field set to its choice."""
        open_fields = {key: chosen[key] for key in chosen if getattr(section, key) == "auto"}
        for key, (value, reason) in open_fields.items():
            self.made.append(Choice(f"{prefix}.{key}" if prefix else key, value, reason))
        return section.model_copy(update={key: value for key, (value, _) in open_fields.items()})
