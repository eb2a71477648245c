"""Contract and data to plan: nothing is `auto` any more, and everything is built from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, final

from trainwright.contract.document import Contract
from trainwright.contract.model import Boosting, Linear, Pretrained
from trainwright.contract.read_contract import Document, placed
from trainwright.contract.training import Training
from trainwright.core.errors import ContractMistake
from trainwright.core.files import Json
from trainwright.core.hashing import hash_value
from trainwright.data.read_table import DataFacts
from trainwright.model.counting import count_parameters, count_products
from trainwright.model.input_shape import Shape
from trainwright.planner.budget_shares import Allotment
from trainwright.planner.data_rules import problems_with_data
from trainwright.planner.device_rules import problems_with_device
from trainwright.planner.estimate import Estimate, estimate_run, most_steps
from trainwright.planner.memory_plan_rules import problems_with_memory
from trainwright.planner.micro_batch_memory import (
    MemoryEstimate,
    check_fits,
    estimate_memory,
    fit_micro_batch,
)
from trainwright.planner.read_device import DeviceFacts
from trainwright.planner.resolve.choice import Choice, Choosing
from trainwright.planner.resolve.compute_choices import (
    decide_compute,
    open_paths,
    why_not_measured,
    work_of,
)
from trainwright.planner.resolve.resolve_auto import decide
from trainwright.planner.row_rules import problems_with_rows


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """A contract with every `auto` decided, why, and what it will take.

    What only a measurement on the machine can tell is `auto` until the run starts. `files` are the
    SHA-256 of the data files; `memory` is known once the data is encoded, for a network.
    `too_short` says why nothing needs to be measured; empty where the run is long.
    `determinism_cost` is what a step takes with and without deterministic algorithms. `extensions`
    are the endings that a finished run was given later, as `planner.extension` writes them.
    `allotment` is how a budget was shared out, once it is.
    """

    contract: Contract
    choices: tuple[Choice, ...]
    estimate: Estimate
    files: tuple[str, ...]
    memory: Literal["unknown"] | MemoryEstimate = "unknown"
    too_short: str = ""
    determinism_cost: Mapping[str, Json] = field(default_factory=dict)
    extensions: tuple[Json, ...] = ()
    allotment: Allotment = field(default_factory=Allotment)

    @property
    def hash(self) -> str:
        """A SHA-256 over the decided contract and the content of its data files: runs of equal
        hashes are the same experiment."""
        contract = self.contract.model_dump(mode="json")
        samples = self.allotment.samples
        return hash_value({"contract": contract, "files": list(self.files), **samples})

    @property
    def training_seconds(self) -> float:
        """The seconds after which a training is cut; infinite without a budget."""
        return min(self.contract.budget.seconds(), self.allotment.training_seconds)

    @property
    def open_paths(self) -> tuple[str, ...]:
        """What is still `auto`, as only a measurement can decide it."""
        is_network = not isinstance(self.contract.model, Boosting | Linear | Pretrained)
        return open_paths(self.contract.training) if is_network else ()

    @property
    def steps(self) -> int:
        """Optimizer steps that epochs and limits leave to a network's run, as `most_steps` says."""
        return most_steps(self.contract, self.estimate.train_rows)

    def with_shape(self, shape: Shape, device: DeviceFacts) -> Plan:
        """The plan once the data is encoded: the size of a network is known then, and what follows
        from it is decided."""
        model = self.contract.model
        if isinstance(model, Boosting | Linear | Pretrained):
            return self
        held = (self.estimate.memory_bytes, device.memory_bytes)
        count = count_parameters(model, shape)
        memory = estimate_memory(self.contract, model, shape, count, held)
        check_fits(self.contract, memory)
        contract, choices = fit_micro_batch(self.contract, self.choices, memory)
        memory = estimate_memory(contract, model, shape, count, held)
        fitted = replace(self, contract=contract, choices=choices, memory=memory)
        return fitted._with_compute(shape, device)

    def _with_compute(self, shape: Shape, device: DeviceFacts) -> Plan:
        """How it is computed."""
        model = self.contract.model
        assert not isinstance(model, Boosting | Linear | Pretrained)
        choosing = Choosing()
        work = work_of(self.contract.training, count_products(model, shape), self.steps)
        training = decide_compute(self.contract, work, device, choosing)
        too_short = why_not_measured(work, device)
        return replace(
            self.with_training(training, choosing.made),
            too_short=too_short,
            determinism_cost={"not_measured": too_short} if too_short else {},
            estimate=self.estimate.with_parameters(model, shape),
        )

    def with_training(self, training: Training, choices: Iterable[Choice]) -> Plan:
        """The plan with more of its training section decided."""
        contract = self.contract.model_copy(update={"training": training})
        return replace(self, contract=contract, choices=(*self.choices, *choices))

    def with_workers(self, choice: Choice) -> Plan:
        """The plan with a number of worker processes."""
        data = self.contract.data.model_copy(update={"num_workers": choice.value})
        contract = self.contract.model_copy(update={"data": data})
        return replace(self, contract=contract, choices=(*self.choices, choice))

    def to_json(self) -> Json:
        """Everything, as JSON."""
        return {
            "contract": self.contract.model_dump(mode="json"),
            "choices": [choice.to_json() for choice in self.choices],
            "estimate": self.estimate.to_json(),
            "memory": self.memory if self.memory == "unknown" else self.memory.to_json(),
            "determinism_cost": dict(self.determinism_cost),
            **({"budget": self.allotment.to_json()} if self.allotment.is_made else {}),
            "hash": self.hash,
            **({"extensions": list(self.extensions)} if self.extensions else {}),
        }


def plan(document: Document, facts: DataFacts, device: DeviceFacts) -> Plan:
    """Decide everything that the contract leaves open, for this data on this device.

    Raises:
        ContractMistake: every problem of the contract that only its data or the device could show.
    """
    contract, choices = decide(document.contract, facts, device)
    # A value that was decided only repeats the one it follows from, which has its own problem.
    decided = {choice.path for choice in choices}
    problems = [
        problem
        for problem in problems_with_data(contract, facts, document.written)
        if problem.path not in decided
    ]
    problems += problems_with_device(contract, device)
    problems += problems_with_memory(contract, device)
    problems += problems_with_rows(contract, facts)
    if problems:
        raise ContractMistake(placed(problems, document.source))
    return Plan(
        contract=contract,
        choices=choices,
        estimate=estimate_run(contract, facts),
        files=tuple(file.sha256 for file in facts.files),
    )
