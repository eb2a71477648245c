"""Gradient noise scale: the critical batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, final

import torch
from torch import Tensor, nn

from trainwright.checkpoint.state import Snapshot
from trainwright.data.loading.batch import Batch
from trainwright.distributed.strategy import SingleProcess, Strategy
from trainwright.engine.execution.precision import LossScale, Unscaled
from trainwright.engine.signals.telemetry import Window
from trainwright.objective.losses import LossSum, Objective
from trainwright.tracking.events import Number, StepOutcome

_DECAY = 0.95


class NoiseParts(NamedTuple):
    """Estimates of tr(S), the trace of the covariance of a row's gradient, and of |G|^2, the
    squared norm of the true gradient; 0-d fp64."""

    noise: Tensor
    signal: Tensor


def noise_parts(
    small_norm: Number, small_rows: float, big_norm: Number, big_rows: float
) -> NoiseParts:
    """Both estimates from the norms of the mean gradient over a small and a large batch (McCandlish
    et al. 2018, arXiv:1812.06162, appendix A.1, equations A.2 and A.3):

        |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)        S = (|g_b|^2 - |g_B|^2) / (1 / b - 1 / B)

    Each is right on average and may be negative in one step; their ratio is only taken of means.
    """
    assert 0 < small_rows < big_rows
    small, big = _squared(small_norm), _squared(big_norm)
    signal = (big_rows * big - small_rows * small) / (big_rows - small_rows)
    noise = (small - big) / (1 / small_rows - 1 / big_rows)
    return NoiseParts(noise, signal)


@final
class NoiseScale:
    """The simple noise scale S / |G|^2, in rows (McCandlish et al. 2018, arXiv:1812.06162, equation
    2.9): steps of far fewer rows are mostly noise, steps of far more rows waste them.

    The small batch is the first micro-batch of a step and the large one the whole step, so a step
    needs at least two micro-batches; others are skipped. A measured step costs one more gradient
    norm, changes nothing and does not synchronise; steps in between cost two comparisons. S and
    |G|^2 are exponential moving averages over the measured steps, with decay 0.95.

    `objective` puts it around that of a run, and it observes the outcomes of its steps; it is a
    gauge with `noise_scale`. Its state is both means and the count of steps.

    Args:
        parameters: those of the optimizer, on their device.
        every: steps from one measured step to the next.
        scale: the factor on the loss, if there is one.
        strategy: how the norm of a gradient is taken.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        every: int = 10,
        *,
        scale: LossScale | Unscaled | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self._parameters = tuple(parameters)
        self._every = every
        self._scale = scale or Unscaled()
        self._norm = (strategy or SingleProcess()).gradient_norm
        device = self._parameters[0].device if self._parameters else torch.device("cpu")
        self._sums = torch.zeros(2, dtype=torch.float64, device=device)
        self._steps = 0
        self._first_targets = 0
        self._small: tuple[Number, int] | None = None

    @property
    def rows(self) -> Tensor:
        """Current S / |G|^2 in rows, 0-d fp64, on the device of the gradients: NaN before the first
        measured step, infinite where noise hides the gradient."""
        noise, signal = self._sums[0], self._sums[1]
        hidden = torch.where(noise > 0, torch.inf, torch.nan)
        return torch.where(signal > 0, noise / signal, hidden)

    def read(self, window: Window) -> Mapping[str, Number]:  # noqa: ARG002
        """Current noise scale."""
        return {"noise_scale": self.rows}

    def objective(self, objective: Objective) -> Objective:
        """The objective of a step, instrumented."""
        return _Watched(self, objective)

    def before_batch(self) -> None:
        """Before each forward pass: after the backward pass of the first micro-batch, the
        parameters hold its gradient alone."""
        if self._steps % self._every:
            return
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        if not gradients:
            self._small = None
        elif self._small is None:
            norm = self._norm(gradients)
            if isinstance(self._scale, LossScale):
                norm = norm / self._scale.on(gradients[0].device)
            self._small = (norm, self._first_targets)

    def after_batch(self, targets: int) -> None:
        """After each forward pass, with its targets."""
        if self._small is None:
            self._first_targets = targets

    def take_outcome(self, outcome: StepOutcome) -> None:
        """After a step; one with non-finite numbers does not count."""
        self._steps += 1
        measured, self._small = self._small, None
        if measured is None or not outcome.targets:
            return
        norm, targets = measured
        share = targets / outcome.targets
        if not 0 < share < 1:
            return
        # The gradient in the parameters has been divided by the targets of the whole step.
        small = torch.as_tensor(norm, dtype=torch.float64) / share
        parts = noise_parts(small, share * outcome.rows, outcome.gradient_norm, outcome.rows)
        found = torch.stack(parts)
        updated = _DECAY * self._sums + (1 - _DECAY) * found
        self._sums = torch.where(torch.isfinite(found).all(), updated, self._sums)

    def snapshot(self) -> Snapshot:
        """Both running sums and the step count."""
        return Snapshot(tensors={"sums": self._sums}, values={"steps": self._steps})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        self._sums.copy_(snapshot.tensors["sums"])
        self._steps = int(snapshot.values["steps"])


@final
class _Watched:
    def __init__(self, scale: NoiseScale, objective: Objective) -> None:
        self._scale = scale
        self._objective = objective

    def __call__(self, model: nn.Module, batch: Batch) -> LossSum:
        self._scale.before_batch()
        loss = self._objective(model, batch)
        self._scale.after_batch(loss.targets)
        return loss


def _squared(norm: Number) -> Tensor:
    return torch.as_tensor(norm, dtype=torch.float64).square()
