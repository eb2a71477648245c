"""An experiment on a finding: both scores, the corrected clauses and the outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from trainwright.contract.sections.data.accepted_findings import BindingFinding
from trainwright.core.files import Json
from trainwright.core.formatting import show_number
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.intervals.bootstrap import Interval

Outcome = Literal["changes_decision", "accepted", "measured", "not_measured"]
"""`changes_decision`: a met clause would not be met without the suspects. `accepted`: the same,
accepted by the contract. `measured`: a worse score, but the same decision. `not_measured`: no
measurable difference."""


@final
@dataclass(frozen=True, slots=True)
class Experiment:
    """One audit finding, `message`, and the measurement without its suspects.

    `before` and `after` are the metric under the two conditions that `conditions` names,
    `difference` is after minus before with its interval; nan if it could not be run. `corrected`
    are the clauses as they would be judged. `write` is the contract line that resolves it, `reason`
    the contract's reason for accepting it, if any.
    """

    finding: BindingFinding
    columns: tuple[str, ...]
    message: str
    method: str
    conditions: tuple[str, str]
    metric: str
    before: float
    after: float
    difference: Interval
    corrected: tuple[Clause, ...]
    outcome: Outcome
    write: str
    reason: str = ""

    @property
    def name(self) -> str:
        """`group_overlap of 'subject'`, or only the finding if it concerns rows."""
        columns = ", ".join(map(repr, self.columns))
        return f"{self.finding} of {columns}" if columns else self.finding

    @property
    def numbers(self) -> str:
        """Both numbers and the interval of their difference."""
        text = (
            f"{self.metric} {show_number(self.before)} {self.conditions[0]}, "
            f"{show_number(self.after)} {self.conditions[1]}"
        )
        if not self.difference.given:
            return text
        low, high = show_number(self.difference.low), show_number(self.difference.high)
        return f"{text} (difference {show_number(self.difference.value)}, {low} to {high})"

    def warning(self) -> str:
        """Warning for a difference that does not change the decision; empty without a
        measurement."""
        match self.outcome:
            case "measured":
                said = f"{self.name}: {self.numbers}; the decision is the same"
                return f"{said}. {self.write}" if self.write else said
            case "accepted":
                return f"{self.name}: {self.numbers}; accepted: {self.reason}"
            case _:
                return ""

    def to_json(self) -> Json:
        """Plain JSON; unknown values are null."""
        return {
            "finding": self.finding,
            "columns": list(self.columns),
            "message": self.message,
            "outcome": self.outcome,
            "method": self.method,
            "metric": self.metric,
            "before": {"condition": self.conditions[0], "value": _known(self.before)},
            "after": {"condition": self.conditions[1], "value": _known(self.after)},
            "difference": self.difference.to_json(),
            "clauses": [clause.to_json() for clause in self.corrected],
            "write": self.write,
            "reason": self.reason,
        }

    @staticmethod
    def from_json(json: Json) -> Experiment:
        """The inverse of `to_json`."""
        before, after = json["before"], json["after"]
        return Experiment(
            finding=json["finding"],
            columns=tuple(json["columns"]),
            message=json["message"],
            method=json["method"],
            conditions=(before["condition"], after["condition"]),
            metric=json["metric"],
            before=_number(before["value"]),
            after=_number(after["value"]),
            difference=Interval.from_json(json["difference"]),
            corrected=tuple(Clause.from_json(one) for one in json["clauses"]),
            outcome=json["outcome"],
            write=json["write"],
            reason=json["reason"],
        )


def warnings_of(experiments: Sequence[Experiment]) -> tuple[str, ...]:
    """Warnings of the findings that worsen the score without invalidating the verdict."""
    return tuple(line for one in experiments if (line := one.warning()))


def _known(value: float) -> Json:
    return value if math.isfinite(value) else None


def _number(value: Json) -> float:
    return math.nan if value is None else float(value)
