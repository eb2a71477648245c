"""Jobs of a script, for a small module that reads rows of three numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

import trainwright as tw

Objective = Callable[[nn.Module, tuple[Tensor, ...]], tw.LossSum]


def checkpointed_job(
    folder: Path, model: nn.Module, objective: Objective, steps: int, lr: float
) -> tw.Job:
    """SGD over 24 rows in batches of 4, with the newest checkpoint kept in `folder`."""
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return tw.Job(
        model=model,
        feed=tw.Feed([torch.randn(24, 3, generator=generator)], batch_size=4),
        step=tw.OptimizerStep(model, objective, optimizer),
        stop_rules=(tw.StepLimit(steps),),
        checkpoints=tw.Checkpoints(folder, keep_top_k=1),
        state={
            "model": tw.ModuleState(model),
            "optimizer": tw.OptimizerState(optimizer, model.named_parameters()),
        },
    )
