"""Allotment of a run's budget before its training starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self, final

from trainwright.core.files import Json

Rows = Literal["all"] | int


@final
@dataclass(frozen=True, slots=True)
class Allotment:
    """Allotment that keeps the whole run within its budget.

    `training_seconds` is the time limit of a training, its last validation and save included;
    infinite without a budget. `settings` are the contract values decided by the budget;
    `baseline_rows` and `test_rows` the sample sizes of the linear baseline and of the judgement.
    `measured` are the seconds it is based on, `planned` the resulting plan, and `lines` its
    summary.
    """

    limit_seconds: float = math.inf
    training_seconds: float = math.inf
    settings: Mapping[str, Json] = field(default_factory=dict)
    baseline_rows: Rows = "all"
    test_rows: Rows = "all"
    planned: Mapping[str, Json] = field(default_factory=dict)
    measured: Mapping[str, Json] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def is_made(self) -> bool:
        """Was a budget allotted?"""
        return math.isfinite(self.limit_seconds)

    @property
    def samples(self) -> dict[str, int]:
        """Everything fitted or judged on a sample of the rows."""
        rows = {"baseline_rows": self.baseline_rows, "test_rows": self.test_rows}
        return {name: count for name, count in rows.items() if isinstance(count, int)}

    def reserve(self) -> dict[str, float]:
        """Planned seconds of a validation and of a save."""
        names = {"validation": "validation_seconds", "save": "save_seconds"}
        return {part: float(self.planned.get(name, 0.0)) for part, name in names.items()}

    def to_json(self) -> Json:
        """The fields by name; empty without a budget."""
        if not self.is_made:
            return {}
        return {
            "limit_seconds": self.limit_seconds,
            "training_seconds": self.training_seconds,
            "settings": dict(self.settings),
            "baseline_rows": self.baseline_rows,
            "test_rows": self.test_rows,
            "planned": dict(self.planned),
            "measured": dict(self.measured),
            "lines": list(self.lines),
        }

    @classmethod
    def from_json(cls, content: Json) -> Self:
        """The inverse of `to_json`."""
        if not content:
            return cls()
        return replace(cls(), **{**content, "lines": tuple(content["lines"])})
