"""Which weights are evaluated and kept, where they are not those that are trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Literal, Protocol, final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from pytorch_optimizer.optimizer.schedulefree import ScheduleFreeAdamW


class Weights(Protocol):
    """The weights that stand for the model: means over time, or those that are trained."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Inside, the model holds the weights to evaluate and keep; afterwards those that are
        trained again, the same bits. Nothing may be trained inside."""
        ...

    def ready(self) -> Mapping[str, Tensor] | Literal["computed"]:
        """What stands in the place of the model's tensors of these names, if it lies ready, in
        tensors that only an update changes; not to be written to."""
        ...


@final
class TrainedWeights:
    """The trained weights are the evaluated ones."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Nothing changes."""
        return nullcontext()

    def ready(self) -> Mapping[str, Tensor]:
        """Nothing stands in the place of another."""
        return {}


@final
class ScheduleFreeWeights:
    """The mean x of schedule-free learning, while y is trained (Defazio et al. 2024,
    arXiv:2405.15682, equations 1 to 3).

    x = y + (1 - 1 / b1)(z - y) is computed when it is asked for. The way back by arithmetic would
    round, so that a validation would change the run: y is kept beside it instead, one copy of the
    weights for as long.
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
        """x in place of y."""
        return self._swapped()

    def ready(self) -> Literal["computed"]:
        """x is computed when it is asked for."""
        return "computed"


@final
class Evaluating:
    """A validation that sees the evaluated weights."""

    def __init__(self, validate: Callable[[], Mapping[str, float]], weights: Weights) -> None:
        self._validate = validate
        self._weights = weights

    def __call__(self) -> Mapping[str, float]:
        """The values of the validation."""
        with self._weights.evaluated():
            return self._validate()
