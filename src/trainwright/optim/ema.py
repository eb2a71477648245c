"""Exponential moving average of the weights (EMA)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import final

import torch
from torch import Tensor, nn

from trainwright.distributed.tensor_shards import local_of


@final
class EMA:
    """m <- d m + (1 - d) w over the parameters and floating-point buffers w of a model (Tarvainen
    and Valpola 2017, arXiv:1703.01780, equation 2), starting from the current weights.

    It is also the `Weights` to evaluate: inside `evaluated` the model holds m. Parameters named in
    `outside` are never trained, and have no average.
    """

    def __init__(
        self, model: nn.Module, decay: float, outside: Collection[str] = frozenset()
    ) -> None:
        self.parameters: Mapping[str, Tensor] = {
            name: one for name, one in model.named_parameters() if name not in outside
        }
        named = {**self.parameters, **dict(model.named_buffers())}
        self._live = {name: one.detach() for name, one in named.items() if one.is_floating_point()}
        self.mean: Mapping[str, Tensor] = {name: one.clone() for name, one in self._live.items()}
        # What this rank holds of them, in the same memory.
        self._held = [local_of(one) for one in self.mean.values()]
        self._held_live = [local_of(one) for one in self._live.values()]
        self.decay = decay
        self._share = 1 - decay

    def take(self, dropped: float | Tensor) -> None:
        """Update the average after a step, unless its update was dropped.

        `dropped` is 0 or 1; as a tensor on the device it is not read.
        """
        if not isinstance(dropped, Tensor):
            if not dropped:
                torch._foreach_lerp_(self._held, self._held_live, self._share)
            return
        share = self._share * (1 - dropped)
        for mean, now in zip(self._held, self._held_live, strict=True):
            mean.lerp_(now, share.to(mean.dtype))

    def evaluated(self) -> AbstractContextManager[None]:
        """Swap m in for w."""
        return self._swapped()

    def ready(self) -> Mapping[str, Tensor]:
        """m."""
        return self.mean

    @contextmanager
    def _swapped(self) -> Iterator[None]:
        trained = {name: one.clone() for name, one in self._live.items()}
        self._write(self.mean)
        try:
            yield
        finally:
            self._write(trained)

    def _write(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, one in self._live.items():
                one.copy_(weights[name])
