"""`resume --for`: by how much a finished run is to go on, as a person writes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self, final

from trainwright.core.errors import Mistake, Problem
from trainwright.core.units import many

Unit = Literal["epoch", "step", "token"]
ScheduleRule = Literal["hold", "redraw"]

_WRITTEN = re.compile(r"\s*(\d[\d,_]{0,18})\s*(epoch|step|token)s?\s*")


@final
@dataclass(frozen=True, slots=True)
class ExtensionRequest:
    """So many epochs, steps or tokens more; 0 for a run that keeps its ending. `schedule` says what
    becomes of a learning rate that was drawn over the first ending: `hold` keeps it where it
    arrived, `redraw` draws it over the whole new length."""

    count: int = 0
    unit: Unit = "epoch"
    schedule: ScheduleRule = "hold"

    @classmethod
    def read(cls, text: str, schedule: ScheduleRule) -> Self:
        """`5 epochs`, `2,000 steps` or `1_000_000 tokens`.

        Raises:
            Mistake: the text is none of them.
        """
        match = _WRITTEN.fullmatch(text)
        count = int(re.sub("[,_]", "", match[1])) if match else 0
        if match and count:
            unit: Unit = {"epoch": "epoch", "step": "step", "token": "token"}[match[2]]  # type: ignore[assignment]
            return cls(count, unit, schedule)
        raise Mistake(
            Problem(
                "by how much a run goes on is a number of epochs, steps or tokens",
                path="--for",
                found=text,
                fix='write for example --for "5 epochs"',
            )
        )

    def __str__(self) -> str:
        return many(self.count, self.unit)


NO_EXTENSION = ExtensionRequest()
