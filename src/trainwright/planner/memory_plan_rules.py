"""Checks of a plan's memory section against its sizes and device."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem
from trainwright.planner.read_device import DeviceFacts


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
