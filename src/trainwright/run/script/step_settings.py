"""What decides an update beside optimizer and learning rate: number format, losses, means."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.modules.loss import _Loss

from trainwright.core.files import Json
from trainwright.engine.job import Job
from trainwright.engine.update.step import OptimizerStep
from trainwright.objective.classification_losses import (
    BinaryCrossEntropyLoss,
    CrossEntropyLoss,
    FocalLoss,
    OrdinalLoss,
)
from trainwright.objective.gradient_penalty import GradientPenalty
from trainwright.objective.losses import Mixed, Padded, Supervised
from trainwright.objective.regression_losses import (
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SquaredErrorLoss,
)
from trainwright.optim.ema import EMA
from trainwright.optim.swa import SWA
from trainwright.run.script.reachable import find_within

PRECISION, LOSSES, MEANS = "step.precision", "step.losses", "step.means"
_MOST_NUMBERS = 20
_WITHOUT_EFFECT = ("device", "training", "scale", "is_checked")
_OF_TARGETS = (
    AbsoluteErrorLoss,
    HuberLoss,
    PoissonLoss,
    QuantileLoss,
    QuantilesLoss,
    SquaredErrorLoss,
)
_OF_CLASSES = (BinaryCrossEntropyLoss, CrossEntropyLoss, FocalLoss, OrdinalLoss)
_OBJECTIVES = (GradientPenalty, Mixed, Padded, Supervised)
_LOSSES = (*_OBJECTIVES, *_OF_TARGETS, *_OF_CLASSES, _Loss)


def describe_step(job: Job) -> Iterator[tuple[str, Json]]:
    """Number format and losses of each `OptimizerStep`, and the means that the step moves. Of own
    functions only the losses of tw and torch that they hold are seen."""
    steps = find_within(job.step, OptimizerStep)
    yield PRECISION, [_described(step.precision) for step in steps]
    yield LOSSES, [_losses_of(step.objective) for step in steps]
    emas = [
        f"EMA(decay={mean.decay})" for mean in find_within([job.step, job.outcome_observers], EMA)
    ]
    yield (
        MEANS,
        [
            *emas,
            *(
                f"SWA(steps={_plain(m.steps)})"
                for m in find_within([job.step, job.outcome_observers], SWA)
            ),
        ],
    )


def _losses_of(held: object) -> list[str]:
    return [_described(one) for one in find_within(held, _LOSSES)]


def _described(one: object) -> str:
    values = [
        f"{name.lstrip('_')}={_plain(value)}"
        for name, value in getattr(one, "__dict__", {}).items()
        if name.lstrip("_") not in _WITHOUT_EFFECT and _is_shown(one, name)
    ]
    buffers = one.named_buffers() if isinstance(one, _Loss) else ()
    values += [f"{name}={_plain(buffer)}" for name, buffer in buffers]
    return f"{type(one).__name__}({', '.join(values)})"


def _is_shown(one: object, name: str) -> bool:
    """Every attribute of a class of this package, the public ones of others."""
    return type(one).__module__.startswith("trainwright.") or not name.startswith("_")


def _plain(value: object) -> str:
    if isinstance(value, bool | int | float | str | torch.dtype | None):
        return str(value)
    if isinstance(value, Tensor):
        return _plain(value.tolist() if value.numel() <= _MOST_NUMBERS else _digest(value))
    if isinstance(value, tuple | list | frozenset):
        parts = [_plain(one) for one in value]
        if len(parts) > _MOST_NUMBERS:
            return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
        return f"[{', '.join(parts)}]"
    if isinstance(value, _LOSSES):
        return _described(value)
    return " ".join([type(value).__name__, *_losses_of(value)])


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(repr(tensor.tolist()).encode()).hexdigest()[:16]
