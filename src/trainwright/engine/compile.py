"""Forward and backward pass as compiled kernels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, final

import torch
from torch import nn

from trainwright.data.loading.dataset import Batch
from trainwright.data.loading.feed import StepBatches
from trainwright.objective.losses import LossSum, Objective

_SHAPES = 256


@final
class CompiledObjective:
    """An objective whose forward and backward pass are compiled (torch.compile, Ansel et al. 2024,
    doi:10.1145/3620665.3640366).

    The first batch of each shape takes from seconds to minutes. Each shape has kernels of its own:
    kernels for shapes that vary would be made at the second shape and used from then on, so that a
    run resumed between the two would compute other bits. The model is not wrapped, so its
    parameters keep their names, and its validation is computed by the usual kernels.

    It is also a probe: the step that is measured at the end of a window is computed by the usual
    kernels, as nobody can look into the others. Which steps those are depends on their number
    alone, so a resumed run computes them alike.
    """

    def __init__(self, objective: Objective) -> None:
        def compute(model: nn.Module, batch: Batch) -> LossSum:
            return objective(model, batch)

        self._compiled = torch.compile(compute, dynamic=False)
        self._usual = objective
        self._is_measured = False

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        """The summed loss of a micro-batch."""
        return (self._usual if self._is_measured else self._compiled)(model, batch)

    @contextmanager
    def measuring(self, work: StepBatches) -> Iterator[None]:  # noqa: ARG002
        """Inside, everything is computed by the usual kernels."""
        self._is_measured = True
        try:
            yield
        finally:
            self._is_measured = False


@contextmanager
def compiling(choice: Literal["off", "on"]) -> Iterator[None]:
    """Inside the block each of up to 256 shapes is compiled. Torch's own limit of 8 would leave the
    others to the usual kernels without a word, and a resumed run to others of them."""
    if choice == "off":
        yield
        return
    # Imported here: half a second that only its users should wait for.
    from torch._dynamo import config

    with config.patch(
        recompile_limit=_SHAPES,
        accumulated_recompile_limit=_SHAPES,
        fail_on_recompile_limit_hit=True,
    ):
        yield
