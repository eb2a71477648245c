"""Weights used for evaluation and export, if not the trained ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol, final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pytorch_optimizer.optimizer.schedulefree import ScheduleFreeAdamW


class Weights(Protocol):
    """Evaluation weights: averages over time, or the trained weights."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside, the model holds the weights to evaluate and export; afterwards the trained ones
        again, bit-identical. Do not train inside."""
        ...

    def ready(self) -> Mapping[str, Tensor] | Literal["computed"]:
        """Evaluation values of the named tensors that are already materialised in tensors that only
        an update changes; read-only."""
        ...


@final
class TrainedWeights:
    """Evaluate the trained weights."""

    def evaluated(self) -> AbstractContextManager[None]:
        """No effect."""
        return nullcontext()

    def ready(self) -> Mapping[str, Tensor]:
        """Nothing is replaced."""
        return {}


@final
class ScheduleFreeWeights:
    """Averaged iterate x of schedule-free learning, while y is trained (Defazio et al. 2024,
    arXiv:2405.15682, equations 1 to 3).

    x = y + (1 - 1 / b1)(z - y) is computed on demand. Inverting that would round, so that a
    validation would change the run: y is saved instead, at the cost of one copy of the weights.
    """

    def __init__(self, optimizer: ScheduleFreeAdamW) -> None:
        self._optimizer = optimizer

    @contextmanager
    def _swapped(self) -> Iterator[None]:
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        trained = [p.detach().clone() for p in parameters]
        self._optimizer.eval()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            self._optimizer.train()  # type: ignore[no-untyped-call]
            with torch.no_grad():
                for parameter, kept in zip(parameters, trained, strict=True):
                    parameter.copy_(kept)

    def evaluated(self) -> AbstractContextManager[None]:
        """Swap x in for y."""
        return self._swapped()

    def ready(self) -> Literal["computed"]:
        """Nothing: x is computed on demand."""
        return "computed"


@final
class Evaluating:
    """Validation with the evaluation weights."""

    def __init__(self, validate: Callable[[], Mapping[str, float]], weights: Weights) -> None:
        self._validate = validate
        self._weights = weights

    def __call__(self) -> Mapping[str, float]:
        """Values of the validation."""
        with self._weights.evaluated():
            return self._validate()
