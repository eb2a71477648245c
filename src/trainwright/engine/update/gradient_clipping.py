"""Gradient clipping by value, norm, ZClip and AutoClip."""

from __future__ import annotations

import bisect
import math
from collections import deque
from typing import NamedTuple, Protocol, assert_never, final

import torch
from torch import Tensor

from trainwright.checkpoint.state import Snapshot
from trainwright.contract.sections.training.optimizer import (
    AutoClip,
    ByNorm,
    ByValue,
    GradientClipping,
    ZClip,
)
from trainwright.distributed.strategy import norms_of

_TINY = 1e-6
"""Added to the norm, as in torch's `clip_grad_norm_`."""


class Clipped(NamedTuple):
    """Clipping for an update on a device: `divisor` of each gradient, a 0-d tensor or 1.0, and
    whether the gradient is scaled down (0 or 1)."""

    divisor: Tensor | float
    clipped: Tensor | float


class Clipping(Protocol):
    """Gradient clipping, once per step before the update.

    `clip` is called on the host with a finite norm; `clip_on_device` where the norm stays a tensor
    and reading it would synchronise. The second must not let a non-finite norm into its state.
    """

    def clip(self, gradients: list[Tensor], norm: float) -> float:
        """Clip gradients of this norm in place; 1.0 if they were clipped, else 0.0."""
        ...

    def clip_on_device(self, gradients: list[Tensor], norm: Tensor) -> Clipped:
        """The same for a norm (0-d) on the device."""
        ...

    def snapshot(self) -> Snapshot:
        """State over earlier norms."""
        ...

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        ...


@final
class NormLimit:
    """Constant norm limit; `math.inf` never clips."""

    def __init__(self, max_norm: float) -> None:
        self._max_norm = max_norm

    def clip(self, gradients: list[Tensor], norm: float) -> float:
        """Scale the gradients down to the limit."""
        return _hold(gradients, norm, self._max_norm) if norm > self._max_norm else 0.0

    def clip_on_device(self, gradients: list[Tensor], norm: Tensor) -> Clipped:  # noqa: ARG002
        """Divisor that enforces the limit."""
        if self._max_norm == math.inf:
            return Clipped(1.0, 0.0)
        return _divisor(norm, self._max_norm)

    def snapshot(self) -> Snapshot:
        """No state."""
        return Snapshot(values={})

    def restore(self, snapshot: Snapshot) -> None:
        """No state."""


@final
class ValueLimit:
    """Clip each gradient element to [-`max_value`, `max_value`]."""

    def __init__(self, max_value: float) -> None:
        self._most = max_value

    def clip(self, gradients: list[Tensor], norm: float) -> float:
        """Clamp the elements; a norm within `max_value` implies all of them are."""
        if norm <= self._most:
            return 0.0
        largest = max(value.item() for value in norms_of(gradients, math.inf))
        if largest <= self._most:
            return 0.0
        self._clamp(gradients)
        return 1.0

    def clip_on_device(self, gradients: list[Tensor], norm: Tensor) -> Clipped:  # noqa: ARG002
        """Always clamp: whether it is needed is not known on the host."""
        largest = torch.stack(norms_of(gradients, math.inf)).amax()
        self._clamp(gradients)
        return Clipped(1.0, (largest > self._most).to(torch.float32))

    def snapshot(self) -> Snapshot:
        """No state."""
        return Snapshot(values={})

    def restore(self, snapshot: Snapshot) -> None:
        """No state."""

    def _clamp(self, gradients: list[Tensor]) -> None:
        torch._foreach_clamp_min_(gradients, -self._most)
        torch._foreach_clamp_max_(gradients, self._most)


@final
class ZClipping:
    """ZClip (Kumar et al. 2025, arXiv:2504.02507, algorithm 1, reciprocal).

    With mean m and variance v of the norms, a norm g with z = (g - m) / sqrt(v) above the threshold
    t is limited to m + t^2 / z * sqrt(v). Then m <- a m + (1 - a) g' and v <- a v + (1 - a) (g' -
    m)^2, with g' the limited norm and the new m. m and v are initialised from the norms of the
    warm-up. A second limit, `max_norm`, applies from the first step; the running mean is updated
    with the norm left after both.
    """

    def __init__(self, z: float, decay: float, warmup_steps: int, max_norm: float) -> None:
        self._z = z
        self._decay = decay
        self._warmup = warmup_steps
        self._max_norm = max_norm
        # Mean, variance, number of norms, and during warm-up their sum and sum of squares.
        self._state = torch.zeros(4, dtype=torch.float64)

    def clip(self, gradients: list[Tensor], norm: float) -> float:
        """Clip to the current limit."""
        return _hold(gradients, norm, self._limit(norm))

    def clip_on_device(self, gradients: list[Tensor], norm: Tensor) -> Clipped:  # noqa: ARG002
        """The same without reading the norm."""
        return _divisor(norm, self._limit_on_device(norm))

    def snapshot(self) -> Snapshot:
        """Mean, variance and warm-up sums."""
        return Snapshot(tensors={"state": self._state})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        self._state = snapshot.tensors["state"].clone()

    def _limit(self, norm: float) -> float:
        """Limit for this norm; updates mean and variance with the clipped norm."""
        mean, variance, count, squares = self._state.tolist()
        most = self._max_norm
        if count >= self._warmup:
            deviation = math.sqrt(variance)
            if norm - mean > self._z * deviation:
                most = min(most, mean + self._z**2 * variance / (norm - mean))
            taken = min(norm, most)
            mean = self._decay * mean + (1 - self._decay) * taken
            variance = self._decay * variance + (1 - self._decay) * (taken - mean) ** 2
        else:
            # Welford 1962: `squares` is the sum of squared differences from the mean.
            taken = min(norm, most)
            count += 1
            before, mean = mean, mean + (taken - mean) / count
            squares += (taken - before) * (taken - mean)
            variance = squares / count
        self._state = torch.tensor([mean, variance, count, squares], dtype=torch.float64)
        return most

    def _limit_on_device(self, norm: Tensor) -> Tensor:
        self._state = self._state.to(norm.device)
        mean, variance, count, squares = self._state
        now = norm.to(torch.float64)
        warm = count >= self._warmup
        over = now - mean
        held = mean + self._z**2 * variance / over
        stands_out = warm & (over > self._z * variance.sqrt())
        most = torch.where(stands_out, held, math.inf).clamp(max=self._max_norm)
        taken = torch.minimum(now, most)
        running = self._decay * mean + (1 - self._decay) * taken
        spread = self._decay * variance + (1 - self._decay) * (taken - running) ** 2
        more = count + 1
        first = mean + (taken - mean) / more
        differences = squares + (taken - mean) * (taken - first)
        state = torch.stack(
            [
                torch.where(warm, running, first),
                torch.where(warm, spread, differences / more),
                torch.where(warm, count, more),
                torch.where(warm, squares, differences),
            ]
        )
        self._state = torch.where(torch.isfinite(now), state, self._state)
        return most


@final
class AutoClipping:
    """AutoClip (Seetharaman et al. 2020, arXiv:2007.14469, algorithm 1): the limit is a percentile
    of the norms of all steps so far, the current one included, linearly interpolated.

    Beyond `history` steps the oldest are dropped. On a device the norms stay there.
    """

    def __init__(self, percentile: float, history: int) -> None:
        self._share = percentile / 100
        self._norms: deque[float] = deque()
        self._sorted: list[float] = []
        self._history = history
        self._device_norms = torch.zeros(0)
        self._device_count = torch.zeros((), dtype=torch.int64)
        self._on_device = False

    def clip(self, gradients: list[Tensor], norm: float) -> float:
        """Clip to the percentile."""
        return _hold(gradients, norm, self._limit(norm))

    def clip_on_device(self, gradients: list[Tensor], norm: Tensor) -> Clipped:  # noqa: ARG002
        """The same without reading the norm."""
        return _divisor(norm, self._limit_on_device(norm))

    def snapshot(self) -> Snapshot:
        """The norms, oldest first."""
        norms = list(self._norms)
        if self._on_device:
            norms = _oldest_first(self._device_norms.tolist(), int(self._device_count))
        return Snapshot(tensors={"norms": torch.tensor(norms, dtype=torch.float64)})

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the norms."""
        norms = snapshot.tensors["norms"].tolist()
        self._norms = deque(norms)
        self._sorted = sorted(norms)
        self._on_device = False

    def _limit(self, norm: float) -> float:
        """Percentile of the history with this norm appended."""
        if len(self._norms) == self._history:
            oldest = self._norms.popleft()
            del self._sorted[bisect.bisect_left(self._sorted, oldest)]
        self._norms.append(norm)
        bisect.insort(self._sorted, norm)
        place = self._share * (len(self._sorted) - 1)
        low = math.floor(place)
        first = self._sorted[low]
        second = self._sorted[min(low + 1, len(self._sorted) - 1)]
        return first + (place - low) * (second - first)

    def _limit_on_device(self, norm: Tensor) -> Tensor:
        """Unused slots of the history are infinite and sort last; a non-finite norm does not enter
        the history."""
        if not self._on_device:
            self._move(norm)
        finite = torch.isfinite(norm)
        place = (self._device_count % self._history)[None]
        taken = torch.where(finite, norm[None].double(), self._device_norms.gather(0, place))
        self._device_norms = self._device_norms.index_copy(0, place, taken)
        self._device_count = self._device_count + finite
        held = torch.clamp(self._device_count, 1, self._history)
        spot = self._share * (held - 1)
        low = torch.floor(spot).to(torch.int64)
        high = torch.minimum(low + 1, held - 1)
        ordered = torch.sort(self._device_norms).values
        first, second = ordered.gather(0, torch.stack([low, high])).unbind()
        return first + (spot - low) * (second - first)

    def _move(self, norm: Tensor) -> None:
        """Move the history to the device of the norm; once, and after each restore."""
        self._on_device = True
        norms = torch.full((self._history,), math.inf, dtype=torch.float64)
        norms[: len(self._norms)] = torch.tensor(list(self._norms), dtype=torch.float64)
        self._device_norms = norms.to(norm.device)
        self._device_count = torch.tensor(len(self._norms), device=norm.device)


def _oldest_first(norms: list[float], count: int) -> list[float]:
    if count <= len(norms):
        return norms[:count]
    start = count % len(norms)
    return norms[start:] + norms[:start]


def _hold(gradients: list[Tensor], norm: float, most: float) -> float:
    """Scale gradients of this norm down to `most`; 1.0 if that was needed, else 0.0."""
    if norm <= most:
        return 0.0
    torch._foreach_mul_(gradients, most / (norm + _TINY))
    return 1.0


def _divisor(norm: Tensor, most: Tensor | float) -> Clipped:
    divisor = torch.clamp((norm + _TINY) / most, min=1.0).to(torch.float32)
    return Clipped(divisor, (norm > most).to(torch.float32))


def build_clipping(section: GradientClipping) -> Clipping:
    """Build the clipping of a contract."""
    match section:
        case "off":
            return NormLimit(math.inf)
        case float() | int():
            return NormLimit(float(section))
        case ByNorm():
            return NormLimit(section.max_norm)
        case ByValue():
            return ValueLimit(section.max_value)
        case ZClip():
            most = math.inf if section.max_norm == "off" else section.max_norm
            return ZClipping(section.z, section.decay, section.warmup_steps, most)
        case AutoClip():
            return AutoClipping(section.percentile, section.history)
        case _:
            assert_never(section)
