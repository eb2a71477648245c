"""Micro-batch size by device memory: activations, weights, optimizer state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never, final

from trainwright.contract.document import Contract
from trainwright.contract.sections.model.traits import ModelSection
from trainwright.contract.sections.run_settings import Distributed
from trainwright.contract.sections.section import settled
from trainwright.contract.sections.training.memory import OFFLOADED_PART_BYTES
from trainwright.contract.sections.training.optimizer import (
    Adafactor,
    Adam,
    AdamW,
    AdamW8bit,
    AnyOptimizer,
    Lamb,
    Lion,
    Muon,
    ScheduleFreeAdamW,
    Sgd,
)
from trainwright.core.errors import ContractMistake, Problem
from trainwright.core.files import Json
from trainwright.core.formatting import show_bytes
from trainwright.distributed.link import BUCKET_BYTES
from trainwright.model.families import network_family
from trainwright.model.input_shape import Shape
from trainwright.planner.resolve.training_choices import Choice

if TYPE_CHECKING:
    from trainwright.model.count_network import PartSizes

_NUMBER = 4


def state_bytes(section: AnyOptimizer) -> float:
    """Bytes of optimizer state per trained parameter."""
    match section:
        case Adam() | AdamW() | Lamb() | ScheduleFreeAdamW():
            return 8.0
        case Sgd():
            return 4.0 if section.momentum else 0.0
        case Lion() | Muon():
            return 4.0
        case Adafactor():
            return 0.5
        case AdamW8bit():
            return 2.1
        case _:
            assert_never(section)


@final
@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Device memory of a training in bytes, of one of its processes, in fp32 and without the
    savings of `training.memory` on gradients and activations: an upper bound for bf16 and for
    activation checkpointing. `optimizer` is that of one part if its state is offloaded.

    `activations` are those of a micro-batch, `data` the encoded rows, `device` the total device
    memory, 0 if unknown, `exchange` what a process holds of weights and gradients while it
    exchanges them with others. Kernel workspaces, allocator fragmentation and a GPU's context are
    not included.
    """

    weights: int
    gradients: int
    optimizer: int
    activations: int
    data: int
    device: int
    exchange: int = 0

    @property
    def fixed(self) -> int:
        """Memory independent of the micro-batch."""
        return self.weights + self.gradients + self.optimizer + self.data + self.exchange

    @property
    def total(self) -> int:
        """All of it."""
        return self.fixed + self.activations

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "weights": self.weights,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "activations": self.activations,
            "data": self.data,
            "device": self.device,
            "exchange": self.exchange,
        }


def widest_rows(contract: Contract) -> int:
    """Rows of the micro-batch that needs the most memory: all of them, unless positions are
    limited."""
    rows, most = settled(contract.training.batch_size), contract.data.batch_tokens
    if most == "off":
        return rows
    return min(rows, max(1, most // contract.model.context_length))


def estimate_memory(
    contract: Contract,
    section: ModelSection,
    shape: Shape,
    parameters: int,
    held: tuple[int, int],
    longest: int = 1,
) -> MemoryEstimate:
    """Memory estimate of a resolved plan; `held` are the bytes of the encoded rows and of the
    device, `longest` the most rows of a sample: those of a query, to which others are padded."""
    data, device = held
    training, family = contract.training, network_family(section)
    rows = widest_rows(contract)
    updated = parameters
    if training.memory.offload_optimizer:
        together = max(OFFLOADED_PART_BYTES // _NUMBER, family.count_largest(section, shape))
        updated = min(parameters, together)
    moments = updated * state_bytes(training.optimizer)
    kept = family.count_activations(section, shape)
    if training.memory.head_loss == "fused":
        kept -= family.count_logits(section, shape)
    means = 0 if training.average == "off" else parameters * _NUMBER
    whole = MemoryEstimate(
        weights=parameters * _NUMBER + family.frozen_bytes(section, shape) + means,
        gradients=parameters * _NUMBER,
        optimizer=round(moments),
        activations=rows * longest * contract.data.windows_a_row * _NUMBER * kept,
        data=data,
        device=device,
    )
    return _of_one_process(whole, contract.distributed, section, shape)


def _of_one_process(
    whole: MemoryEstimate, over: Distributed, section: ModelSection, shape: Shape
) -> MemoryEstimate:
    """Memory of a process that trains with others, from that of one alone."""
    if over.strategy == "single" or over.num_gpus in ("auto", 1):
        return whole
    family, part = network_family(section), _divide_state(whole, over.shards)
    if over.strategy == "fsdp":
        parts = family.count_parts(section, shape)
        exchange = count_gathered_bytes(parts, is_kept=not over.reshard_after_forward)
        # The model is built whole, and then divided.
        built = whole.weights - part.gradients - part.optimizer
        return replace(part, exchange=max(exchange, built))
    largest = family.count_largest(section, shape) * _NUMBER // over.model_ranks
    bucket = min(part.gradients, BUCKET_BYTES + largest)
    return replace(part, exchange=bucket if over.num_gpus == 2 else 2 * bucket)


def _divide_state(whole: MemoryEstimate, ranks: int) -> MemoryEstimate:
    """Weights, gradients and optimizer state of one of `ranks`."""
    return replace(
        whole,
        weights=-(-whole.weights // ranks),
        gradients=-(-whole.gradients // ranks),
        optimizer=-(-whole.optimizer // ranks),
    )


def count_gathered_bytes(parts: PartSizes, *, is_kept: bool = False) -> int:
    """Most bytes that a rank holds in addition to its shards: the weights outside of blocks, those
    of a block and of the next, or all if they are kept until the backward pass, and the gradient of
    what is summed, with the copy of it that is sent."""
    weights = sum(parts.blocks) if is_kept else 2 * parts.largest
    return _NUMBER * (parts.rest + weights + 2 * max(parts.rest, parts.largest))


def check_fits(contract: Contract, estimate: MemoryEstimate) -> None:
    """Refuse a model that does not fit the device at any batch size, before memory is allocated.

    Raises:
        ContractMistake: weights, gradients and optimizer state alone exceed the device memory.
    """
    in_backward = contract.training.memory.update == "in_backward"
    needed = estimate.weights + estimate.optimizer + estimate.exchange
    needed += 0 if in_backward else estimate.gradients
    if estimate.device and needed > estimate.device:
        shards = "strategy: fsdp, " if contract.distributed.strategy == "ddp" else ""
        raise ContractMistake(
            Problem(
                "the model does not fit into the memory of this machine",
                path="model",
                found=f"{show_bytes(needed)} of weights, gradients and optimizer state",
                expected=f"at most {show_bytes(estimate.device)}",
                fix=f"take fewer or narrower layers, {shards}or another machine",
            )
        )


def fit_micro_batch(
    contract: Contract, choices: tuple[Choice, ...], estimate: MemoryEstimate
) -> tuple[Contract, tuple[Choice, ...]]:
    """The contract with the largest micro-batch that divides the batch and fits into the device
    memory less `training.memory.margin`, if the plan may choose both sizes."""
    path, other = "training.batch_size", "training.gradient_accumulation_steps"
    made = {choice.path: choice for choice in choices}
    if not estimate.device or not {path, other} <= made.keys():
        return contract, choices
    training = contract.training
    rows = settled(training.effective_batch_size) // contract.distributed.data_ranks
    widest = widest_rows(contract)
    a_row = estimate.activations // widest
    room = round(estimate.device * (1 - training.memory.margin)) - estimate.fixed
    fits = max(1, room // max(1, a_row))
    if widest < settled(training.batch_size) and widest <= fits:
        return contract, choices
    batch = next(size for size in range(min(rows, fits), 0, -1) if rows % size == 0)
    if training.memory.update == "in_backward":
        batch = rows
    one, several = ("query", "queries") if contract.task == "ranking" else ("row", "rows")
    about = f"{show_bytes(a_row)} of activations a {one}, {show_bytes(max(0, room))} for them"
    reason = (
        f"all {rows:,} {several} of a step fit at once"
        if batch == rows
        else "the largest that fits"
    )
    made[path] = Choice(path, batch, f"{made[path].reason}; {reason}: {about}")
    made[other] = Choice(other, rows // batch, f"what the {several} of a step need")
    sizes = {"batch_size": batch, "gradient_accumulation_steps": rows // batch}
    training = training.model_copy(update=sizes)
    return contract.model_copy(update={"training": training}), tuple(made.values())
