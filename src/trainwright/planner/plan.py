"""Plan of a contract: nothing is `auto` any more, and every choice has its reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, final

from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import Document, placed
from trainwright.contract.rules.all_rules import problems_of_rules
from trainwright.contract.sections.training.training import Training
from trainwright.core.errors import ContractMistake, MissingExtra, Mistake, Problem
from trainwright.core.files import Json, hash_value
from trainwright.data.read_table import DataFacts
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape
from trainwright.planner.budget_allotment import Allotment
from trainwright.planner.data_rules import problems_with_data, problems_with_device
from trainwright.planner.estimate import Estimate, estimate_run, most_steps
from trainwright.planner.kinds.data_planner import planner_of
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.planner.resolve.compute_choices import (
    decide_compute,
    open_paths,
    why_not_measured,
    work_of,
)
from trainwright.planner.resolve.resolve_auto import decide
from trainwright.planner.resolve.training_choices import Choice, Choosing

if TYPE_CHECKING:
    from trainwright.planner.micro_batch_memory import MemoryEstimate


def problems_with_memory(contract: Contract, device: DeviceFacts) -> Iterator[Problem]:
    """All problems with their paths, without places, for a resolved contract."""
    training = contract.training
    if training.memory.update == "in_backward" and training.gradient_accumulation_steps != 1:
        yield Problem(
            "update: in_backward makes a step of one micro-batch",
            path="training.batch_size",
            found=f"{training.gradient_accumulation_steps} micro-batches of {training.batch_size}",
            expected=f"batch_size {training.effective_batch_size}",
            fix=f"write batch_size: {training.effective_batch_size}",
        )
    if training.memory.offload_optimizer and device.kind == "cpu":
        yield Problem(
            "there is no GPU to offload from: the optimizer's state lies in the host's memory",
            path="training.memory.offload_optimizer",
            found="true",
            expected="true only where there is a GPU",
            fix="remove it; adafactor and adamw_8bit keep less state on a CPU too",
        )
    if training.memory.offload_activations and device.kind == "cpu":
        yield Problem(
            "there is no GPU to offload from: activations lie in the host's memory already",
            path="training.memory.offload_activations",
            found="true",
            expected="true only where there is a GPU",
            fix="remove it; activation_checkpointing saves memory on a CPU too",
        )


@final
@dataclass(frozen=True, slots=True)
class Plan:
    """Resolved contract, with the reasons of its choices and its cost.

    What needs a measurement on the machine stays `auto` until the run starts. `files` are the
    SHA-256 of the data files; `memory` is known once the data is encoded, for a network.
    `too_short` says why nothing needs to be measured; empty for a long run. `determinism_cost` is
    the time of a step with and without deterministic algorithms. `extensions` are those of a
    finished run, in the format of `planner.plan_extension`. `allotment` is that of the budget, if
    there is one. `candidates` are the plans of a selection, from the simplest on, or why one cannot
    be trained. `start` is the checkpoint of another run that it begins at, in the format of
    `run.extend.starting_point`. `threads` are those of the training; trees may grow by fewer.
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
    candidates: Mapping[str, Plan | str] = field(default_factory=dict)
    start: Mapping[str, Json] = field(default_factory=dict)
    threads: int = 1

    @property
    def hash(self) -> str:
        """SHA-256 over the resolved contract and the content of its data files: runs of equal
        hashes are the same experiment."""
        contract = self.contract.model_dump(mode="json")
        samples = self.allotment.samples
        began = {"start": dict(self.start)} if self.start else {}
        return hash_value({"contract": contract, "files": list(self.files), **samples, **began})

    @property
    def training_seconds(self) -> float:
        """Time limit of a training; infinite without a budget."""
        return min(self.contract.budget.seconds(), self.allotment.training_seconds)

    @property
    def open_paths(self) -> tuple[str, ...]:
        """Paths that are still `auto` because only a measurement can resolve them."""
        is_network = self.contract.model.is_loop_trained
        return open_paths(self.contract.training) if is_network else ()

    @property
    def steps(self) -> int:
        """Optimizer steps of a network's run within epochs and limits, as `most_steps`."""
        return most_steps(self.contract, self.estimate.train_rows)

    def with_shape(self, shape: Shape, device: DeviceFacts, longest: int = 1) -> Plan:
        """Plan once the data is encoded: the size of a network is known, and what depends on it is
        resolved. `longest` is the most rows of a sample: of a query, or 1."""
        model = self.contract.model
        if not model.is_loop_trained:
            return self
        # Imported here: only networks are counted.
        from trainwright.planner.micro_batch_memory import (
            check_fits,
            estimate_memory,
            fit_micro_batch,
        )

        held = (self.estimate.memory_bytes, device.memory_bytes)
        count = network_family(model).count_parameters(model, shape)
        memory = estimate_memory(self.contract, model, shape, count, held, longest)
        if self.contract.distributed.strategy != "auto":
            check_fits(self.contract, memory)
        contract, choices = fit_micro_batch(self.contract, self.choices, memory)
        memory = estimate_memory(contract, model, shape, count, held, longest)
        fitted = replace(self, contract=contract, choices=choices, memory=memory)
        return fitted._with_compute(shape, device)

    def _with_compute(self, shape: Shape, device: DeviceFacts) -> Plan:
        """Resolve the execution variant."""
        model = self.contract.model
        choosing = Choosing()
        products = network_family(model).count_products(model, shape)
        products *= self.contract.data.windows_a_row
        work = work_of(self.contract.training, products, self.steps)
        training = decide_compute(self.contract, work, device, choosing)
        too_short = why_not_measured(work, device)
        return replace(
            self.with_training(training, choosing.made),
            too_short=too_short,
            determinism_cost={"not_measured": too_short} if too_short else {},
            estimate=self.estimate.with_parameters(model, shape),
        )

    def with_training(self, training: Training, choices: Iterable[Choice]) -> Plan:
        """Plan with more of its training section resolved."""
        contract = self.contract.model_copy(update={"training": training})
        return replace(self, contract=contract, choices=(*self.choices, *choices))

    def with_workers(self, choice: Choice) -> Plan:
        """Plan with a number of loader processes."""
        data = self.contract.data.model_copy(update={"num_workers": choice.value})
        contract = self.contract.model_copy(update={"data": data})
        return replace(self, contract=contract, choices=(*self.choices, choice))

    def to_json(self) -> Json:
        """The plan as JSON."""
        return {
            "contract": self.contract.model_dump(mode="json"),
            "choices": [choice.to_json() for choice in self.choices],
            "estimate": self.estimate.to_json(),
            "memory": self.memory if self.memory == "unknown" else self.memory.to_json(),
            "determinism_cost": dict(self.determinism_cost),
            "threads": self.threads,
            **({"budget": self.allotment.to_json()} if self.allotment.is_made else {}),
            "hash": self.hash,
            **({"extensions": list(self.extensions)} if self.extensions else {}),
            **({"start": dict(self.start)} if self.start else {}),
        }


def plan(document: Document, facts: DataFacts, device: DeviceFacts) -> Plan:
    """Resolve everything that the contract leaves open, for this data on this device.

    Raises:
        ContractMistake: all problems of the contract that only its data or the device can show.
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
    problems += planner_of(contract, facts).storage_problems()
    if problems:
        raise ContractMistake(placed(problems, document.source))
    return Plan(
        contract=contract,
        choices=choices,
        estimate=estimate_run(contract, facts),
        files=tuple(file.sha256 for file in facts.files),
        threads=device.threads,
        candidates=_plan_candidates(document, facts, device) if contract.model.is_selection else {},
    )


def _plan_candidates(
    document: Document, facts: DataFacts, device: DeviceFacts
) -> dict[str, Plan | str]:
    # Imported here: few contracts select a model.
    from trainwright.planner.candidate_documents import candidate_documents

    candidates = candidate_documents(document).items()
    return {name: _plan_candidate(one, facts, device) for name, one in candidates}


def _plan_candidate(document: Document, facts: DataFacts, device: DeviceFacts) -> Plan | str:
    """Plan of a candidate, or why it cannot be trained here, or on this data."""
    from trainwright.planner.candidate_documents import need_installed

    try:
        need_installed(document.contract.model)
        if problems := problems_of_rules(document.contract, document.written):
            return problems[0].message
        return plan(document, facts, device)
    except Mistake as mistake:
        first = mistake.problems[0]
        return (
            f"{first.message}: {first.fix}" if isinstance(mistake, MissingExtra) else first.message
        )
