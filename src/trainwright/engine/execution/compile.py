"""Compiled forward and backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, final

import torch
from torch import nn

from trainwright.data.loading.batch import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.model.adapters.inject_adapter import let_compiler_read_weights
from trainwright.objective.losses import LossSum, Objective

_SHAPES = 256


@final
class CompiledObjective:
    """Objective with its forward and backward pass compiled (torch.compile, Ansel et al. 2024,
    doi:10.1145/3620665.3640366).

    The first batch of each shape takes seconds to minutes. Each shape has its own kernels:
    dynamic-shape kernels would be generated at the second shape and used from then on, so a run
    resumed between the two would compute different bits. The model is not wrapped, so its
    parameters keep their names, and validation runs eagerly.

    It is also a probe: the measured step at the end of a window runs eagerly, because hooks cannot
    see into compiled kernels. Which steps are measured depends on the step number alone, so a
    resumed run computes the same ones eagerly.
    """

    def __init__(self, objective: Objective) -> None:
        def compute(model: nn.Module, batch: Batch) -> LossSum:
            return objective(model, batch)

        let_compiler_read_weights()
        self._compiled = torch.compile(compute, dynamic=False)
        self._usual = objective
        self._is_measured = False

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """Summed loss of a micro-batch."""
        return (self._usual if self._is_measured else self._compiled)(model, batch)

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Run the block eagerly."""
        self._is_measured = True
        try:
            yield
        finally:
            self._is_measured = False


@contextmanager
def compiling(choice: Literal["off", "on"]) -> Iterator[None]:
    """Inside the block up to 256 shapes are compiled. Torch's default limit of 8 would silently run
    the others eagerly, and a resumed run would choose different ones. The number of targets of a
    mask is an output of the graph: torch's default would break it there, between the model and its
    loss."""
    if choice == "off":
        yield
        return
    # Imported here: it takes half a second, which only its users should pay.
    from torch._dynamo import config

    with config.patch(
        recompile_limit=_SHAPES,
        accumulated_recompile_limit=_SHAPES,
        fail_on_recompile_limit_hit=True,
        capture_scalar_outputs=True,
    ):
        yield
