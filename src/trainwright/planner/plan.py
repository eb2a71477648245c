"""Contract and data to plan: nothing is `auto` any more, and everything is built from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

from trainwright.contract.document import Contract
from trainwright.contract.model import Boosting, Linear, Pretrained
from trainwright.contract.reading import Document, placed
from trainwright.core.errors import ContractMistake
from trainwright.core.files import Json
from trainwright.core.hashing import hash_value
from trainwright.data.reading import DataFacts
from trainwright.model.shape import Shape
from trainwright.planner.choices import Choice, decide
from trainwright.planner.data_rules import problems_with_data
from trainwright.planner.device import DeviceFacts
from trainwright.planner.estimate import Estimate, estimate_run


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A contract with every `auto` decided, why, and what it will take.

    `hash` is a SHA-256 over the decided contract and the content of its data files: runs of equal
    hashes are the same experiment.
    """

    contract: Contract
    choices: tuple[Choice, ...]
    estimate: Estimate
    hash: str

    def with_shape(self, shape: Shape) -> Plan:
        """The plan once the data is encoded: a network's parameters are known then."""
        model = self.contract.model
        if isinstance(model, Boosting | Linear | Pretrained):
            return self
        return replace(self, estimate=self.estimate.with_parameters(model, shape))

    def to_json(self) -> Json:
        """Everything, as JSON."""
        return {
            "contract": self.contract.model_dump(mode="json"),
            "choices": [choice.to_json() for choice in self.choices],
            "estimate": self.estimate.to_json(),
            "hash": self.hash,
        }


def plan(document: Document, facts: DataFacts, device: DeviceFacts) -> Plan:
    """Decide everything that the contract leaves open, for this data on this device.

    Raises:
        ContractMistake: every problem of the contract that only its data could show.
    """
    contract, choices = decide(document.contract, facts, device)
    # A value that was decided only repeats the one it follows from, which has its own problem.
    decided = {choice.path for choice in choices}
    problems = [
        problem
        for problem in problems_with_data(contract, facts, document.written)
        if problem.path not in decided
    ]
    if problems:
        raise ContractMistake(placed(problems, document.source))
    return Plan(
        contract=contract,
        choices=choices,
        estimate=estimate_run(contract, facts),
        hash=hash_value(
            {
                "contract": contract.model_dump(mode="json"),
                "files": [file.sha256 for file in facts.files],
            }
        ),
    )
