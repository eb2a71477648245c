"""How the budget of a run is shared out before its training starts."""

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
    """What a plan does so that the whole run stays within its budget.

    `training_seconds` is the time after which a training is cut, its last validation and save
    counted in; infinite where no budget was shared out. `settings` are the values of contract
    paths that the budget decided; `baseline_rows` and `test_rows` the training rows that the
    linear baseline sees and the test rows that are judged. `measured` are the seconds that it
    rests on, `planned` is what they allow, and `lines` say it to people.
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
        """Whether a budget was shared out."""
        return math.isfinite(self.limit_seconds)

    @property
    def samples(self) -> dict[str, int]:
        """What is fitted or judged on fewer rows than there are."""
        rows = {"baseline_rows": self.baseline_rows, "test_rows": self.test_rows}
        return {name: count for name, count in rows.items() if isinstance(count, int)}

    def reserve(self) -> dict[str, float]:
        """The planned seconds of a validation and of a save."""
        names = {"validation": "validation_seconds", "save": "save_seconds"}
        return {part: float(self.planned.get(name, 0.0)) for part, name in names.items()}

    def to_json(self) -> Json:
        """The fields by name; nothing where no budget was shared out."""
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
