"""Extension of a plan, for a finished run with a new ending."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, final

from trainwright.contract.document import Contract
from trainwright.core.files import Json, to_json
from trainwright.planner.estimate import epoch_ends
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.training_choices import Choice


@final
@dataclass(frozen=True, slots=True)
class Extension:
    """One extension of a run: `by` how much, from which `step` on, how the run had `ended` and with
    which `verdict`, what happens to the `schedule`, and the `values` of the contract by path."""

    by: str
    step: int
    ended: str
    verdict: str
    schedule: str
    values: Mapping[str, Json] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Read `to_json`."""
        texts = {name: str(value[name]) for name in ("by", "ended", "verdict", "schedule")}
        return cls(step=int(value["step"]), values=dict(value["values"]), **texts)

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "by": self.by,
            "step": self.step,
            "ended": self.ended,
            "verdict": self.verdict,
            "schedule": self.schedule,
            "values": dict(self.values),
        }


def extend_plan(plan: Plan, extension: Extension) -> Plan:
    """Plan with the new ending; everything else is unchanged."""
    contract = with_values(plan.contract, extension.values)
    reason = f"extended by {extension.by} from step {extension.step:,}"
    kept = [choice for choice in plan.choices if choice.path not in extension.values]
    made = [Choice(path, value, reason) for path, value in extension.values.items()]
    steps = epoch_ends(contract, plan.estimate.train_rows)[-1]
    return replace(
        plan,
        contract=contract,
        choices=(*kept, *made),
        estimate=replace(plan.estimate, steps=steps),
        extensions=(*plan.extensions, extension.to_json()),
    )


def with_values(contract: Contract, values: Mapping[str, Json]) -> Contract:
    """The contract with other values at these paths.

    A model without any stays the same object: what it read from files is not in its JSON.
    """
    content = contract.model_dump(mode="json")
    for path, value in values.items():
        *sections, key = path.split(".")
        inner = content
        for section in sections:
            inner = inner[section]
        inner[key] = json.loads(to_json(value))
    changed = Contract.model_validate_json(to_json(content))
    if any(path.split(".")[0] == "model" for path in values):
        return changed
    return changed.model_copy(update={"model": contract.model})
