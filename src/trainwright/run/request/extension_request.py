"""`resume --for`: the requested extension of a finished run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Self, final, get_args

from trainwright.core.errors import Mistake, Problem
from trainwright.core.formatting import many

Unit = Literal["epoch", "step", "token"]
ScheduleRule = Literal["hold", "redraw"]

_WRITTEN = re.compile(r"\s*(\d[\d,_]{0,18})\s*(epoch|step|token)s?\s*", re.ASCII)


@final
@dataclass(frozen=True, slots=True)
class ExtensionRequest:
    """Additional epochs, steps or tokens; 0 for a run that keeps its ending. `schedule` says what
    happens to a learning rate scheduled over the first ending: `hold` keeps its final value,
    `redraw` schedules it over the whole new length."""

    count: int = 0
    unit: Unit = "epoch"
    schedule: ScheduleRule = "hold"

    @classmethod
    def read(cls, text: str | None, schedule: ScheduleRule) -> Self:
        """Parse `5 epochs`, `2,000 steps` or `1_000_000 tokens`; None means no new ending.

        Raises:
            Mistake: none of these, or a schedule without a new ending.
        """
        if text is None:
            if schedule == "hold":
                return cls()
            raise Mistake(_no_new_ending(schedule))
        match = _WRITTEN.fullmatch(text)
        count = int(re.sub("[,_]", "", match[1])) if match else 0
        for unit in get_args(Unit):
            if match and count and match[2] == unit:
                return cls(count, unit, schedule)
        raise Mistake(
            Problem(
                "by how much a run goes on is a number of epochs, steps or tokens",
                path="--for",
                found=text if text.strip() else "an empty text",
                expected="a whole number of at least 1 and its unit",
                fix='write for example --for "5 epochs"',
            )
        )

    def __str__(self) -> str:
        return many(self.count, self.unit)


def _no_new_ending(schedule: ScheduleRule) -> Problem:
    return Problem(
        "a schedule is drawn again only for a new ending",
        path="--schedule",
        found=schedule,
        fix='add for example --for "5 epochs", or remove it',
    )


NO_EXTENSION = ExtensionRequest()
