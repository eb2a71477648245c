"""Stochastic weight averaging (SWA): the mean and its learning rate. Needs torch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, assert_never, final

import torch
from torch import Tensor, nn

from trainwright.contract.sections.training.scheduler import ConstantRate, CyclicRate
from trainwright.core.progress import Progress
from trainwright.optim.lr_schedule import half_cosine
from trainwright.optim.optimizer_protocol import Optimizer
from trainwright.optim.swa_schedule import SWASchedule

NORMS = nn.modules.batchnorm._NormBase
"""Common base of all norms with running statistics."""


@final
class SWA:
    """m <- m + (w - m) / (n + 1) over the parameters w of a model, after selected steps (stochastic
    weight averaging, Izmailov et al. 2018, arXiv:1803.05407, algorithm 1).

    As a schedule it learns the number of the next step; it is also the `Weights` to evaluate:
    inside `evaluated` the model holds m, once an average exists. BatchNorm statistics belong to the
    trained weights; those for m are recomputed when m is evaluated and has changed. All other
    buffers are unchanged.

    Args:
        model: its parameters are averaged.
        taking: after which steps.
        statistics: recomputes the BatchNorm statistics of the model for its current weights.
        outside: names of parameters that are never trained, and have no average.
    """

    def __init__(
        self,
        model: nn.Module,
        taking: SWASchedule,
        statistics: Callable[[], None],
        outside: Collection[str] = frozenset(),
    ) -> None:
        self.parameters: Mapping[str, Tensor] = {
            name: one for name, one in model.named_parameters() if name not in outside
        }
        weights = {name: p for name, p in self.parameters.items() if p.is_floating_point()}
        buffers = {
            f"{path}.{name}" if path else name: buffer
            for path, module in model.named_modules()
            if isinstance(module, NORMS)
            for name, buffer in module.named_buffers(recurse=False)
        }
        self._weights = {name: one.detach() for name, one in weights.items()}
        self._live = {**self._weights, **buffers}
        self.mean: Mapping[str, Tensor] = {name: one.clone() for name, one in self._live.items()}
        self._steps = frozenset(taking.steps)
        self._statistics = statistics
        self._norms = tuple(buffers)
        self._next = 1
        self._count: float | Tensor = 0.0
        self._last = 0
        self._is_stale = False

    def __call__(self, progress: Progress) -> None:
        """Record the number of the next step."""
        self._next = progress.step + 1

    def take(self, dropped: float | Tensor) -> None:
        """Update the average after a step, if it is scheduled and its update was not dropped.

        `dropped` is 0 or 1; as a tensor on the device it is not read. A step that turns out to have
        been dropped is counted again later, but not averaged twice.
        """
        if self._next not in self._steps or self._next <= self._last:
            return
        means, live = [self.mean[name] for name in self._weights], list(self._weights.values())
        if not isinstance(dropped, Tensor):
            if dropped:
                return
            count = float(self._count)
            torch._foreach_lerp_(means, live, 1 / (count + 1))
            self._count = count + 1
        else:
            taken = 1 - dropped.double()
            before = self._count if isinstance(self._count, Tensor) else taken * 0 + self._count
            share = taken / (before + 1)
            for mean, now in zip(means, live, strict=True):
                mean.lerp_(now, share.to(mean.dtype))
            self._count = before + taken
        self._last = self._next
        self._is_stale = bool(self._norms)

    @property
    def steps(self) -> tuple[int, ...]:
        """After which steps weights are taken."""
        return tuple(sorted(self._steps))

    @property
    def count(self) -> int:
        """Number of averaged weights; synchronises with the device."""
        return round(float(self._count))

    def evaluated(self) -> AbstractContextManager[None]:
        """Swap m in for w; w itself before the first average."""
        return self._swapped() if self.count else nullcontext()

    def ready(self) -> Mapping[str, Tensor] | Literal["computed"]:
        """m, once its BatchNorm statistics are recomputed; nothing before the first average."""
        if self._is_stale:
            return "computed"
        return self.mean if self.count else {}

    @property
    def values(self) -> dict[str, int | bool]:
        """State to save beyond the average itself."""
        return {"count": self.count, "last": self._last, "is_stale": self._is_stale}

    @values.setter
    def values(self, values: Mapping[str, int | bool]) -> None:
        self._count = float(values["count"])
        self._last = int(values["last"])
        self._is_stale = bool(values["is_stale"])

    @contextmanager
    def _swapped(self) -> Iterator[None]:
        trained = {name: one.clone() for name, one in self._live.items()}
        self._write(self.mean)
        try:
            if self._is_stale:
                self._statistics()
                for name in self._norms:
                    self.mean[name].copy_(self._live[name])
                self._is_stale = False
            yield
        finally:
            self._write(trained)

    def _write(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, one in self._live.items():
                one.copy_(weights[name])


@final
class SWALearningRate:
    """Schedule that overrides the learning rate from the start of the averaging (Izmailov et al.
    2018, arXiv:1803.05407, section 3.1).

    The peak is the rate of the group when this object was constructed.

    Args:
        optimizer: its learning rates are set.
        section: constant or cyclic.
        taking: start of the averaging, and the end of each cycle.
        anneal_steps: steps over which a constant rate is reached.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        section: ConstantRate | CyclicRate,
        taking: SWASchedule,
        anneal_steps: int = 0,
    ) -> None:
        self._groups = [(group, float(group["lr"])) for group in optimizer.param_groups]
        self._section = section
        self._taking = taking
        self._anneal_steps = anneal_steps

    def __call__(self, progress: Progress) -> None:
        """Set the learning rate of the step after `progress.step` applied ones."""
        made = progress.step - self._taking.start
        if made < 0:
            return
        section = self._section
        match section:
            case ConstantRate(ratio=ratio):
                share = min(1.0, (made + 1) / (self._anneal_steps + 1))
                left = half_cosine(share)
                for group, peak in self._groups:
                    group["lr"] = left * group["lr"] + (1 - left) * peak * ratio
            case CyclicRate(high_ratio=high, low_ratio=low):
                share = self._share_of_cycle(progress.step)
                for group, peak in self._groups:
                    group["lr"] = peak * ((1 - share) * high + share * low)
            case _:
                assert_never(section)

    def _share_of_cycle(self, step: int) -> float:
        """Share of the current cycle completed after the next step; 1 after the last cycle."""
        steps = self._taking.steps
        at = bisect_right(steps, step)
        if at == len(steps):
            return 1.0
        begin = steps[at - 1] if at else self._taking.start
        return (step - begin + 1) / (steps[at] - begin)
