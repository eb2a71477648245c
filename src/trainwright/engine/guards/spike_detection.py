"""Loss spike detection, at the cost of two comparisons per step."""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, final

from trainwright.checkpoint.state import Snapshot

_WINDOW = 64
_ARMED_AT = 32
_FEWEST_STEPS = 16
_FIT_EVERY = 64
_NEEDED, _OF = 3, 5
_LEAST_RISE = math.log(1.5)
_LEAST_DEVIATION = 0.02
_FAR_NORM = 4.0
_RATE_JUMP = 1.5
_MAD_TO_DEVIATION = 1.4826

MOST_STEPS = _OF
"""Number of recent steps in which a spike may have begun, the last one included."""

_MASK = (1 << _OF) - 1
_LARGEST_LOG = 700.0
_LARGEST_FP32 = 3e38


class Spike(NamedTuple):
    """Loss spike. `steps` is its length so far, this step included; `usual` the median loss before
    it, `z` the current robust z-score."""

    steps: int
    loss: float
    usual: float
    z: float
    gradient_norm: float
    usual_norm: float


@final
class SpikeWatch:
    """Detects steps whose log-loss is far above the median of the last 64 calm ones.

    With the median m and the standard deviation s = 1.4826 MAD of the log-losses in the window, a
    step is suspicious if its z = (log loss - m) / s is above the threshold, its loss at least 1.5
    times the median, and its gradient norm over 4 times the median norm (or z twice the threshold).
    Three suspicious steps of five are a spike. Suspicious steps do not enter the window. Median and
    deviation are updated every 64 calm steps. It is armed after 32 calm steps, and rearmed when the
    learning rate jumps by half. A window with a loss of 0 or less never alarms. A rollback restores
    its state with the model's, so that it is armed with the statistics of those weights.

    A windowed z-score of loss and norm follows llm.c (Karpathy 2024, `outlier_detector.h`); median
    and MAD instead of mean and standard deviation keep a spike from masking itself.
    """

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._rate = 0.0
        self._losses: deque[float] = deque(maxlen=_WINDOW)
        self._norms: deque[float] = deque(maxlen=_WINDOW)
        self.rearm()

    def rearm(self) -> None:
        """Discard the window: the loss level is about to change."""
        self._losses.clear()
        self._norms.clear()
        self._until_fit = _ARMED_AT
        self._recent = 0
        self._limit = math.inf
        self._center, self._deviation, self._norm = 0.0, 1.0, 0.0

    def look(self, loss: float, norm: float, rate: float) -> Spike | None:
        """Add one applied step with finite numbers; the spike that it confirms, if any."""
        if rate > _RATE_JUMP * self._rate:
            self.rearm()
        self._rate = rate
        if loss > self._limit:
            z = (math.log(loss) - self._center) / self._deviation
            if norm > _FAR_NORM * self._norm or z > 2 * self._threshold:
                return self._suspect(loss, norm, z)
        self._losses.append(loss)
        self._norms.append(norm)
        if self._recent:
            self._recent = self._recent << 1 & _MASK
        self._until_fit -= 1
        if not self._until_fit:
            self._fit()
        return None

    def usual_limit(self) -> float:
        """Loss above which a step is unusual by the current window: -inf if it has too few steps,
        inf if it contains losses without a logarithm. Rounded to fp32, so that all devices compare
        with the same value."""
        if len(self._losses) < _FEWEST_STEPS:
            return -math.inf
        limit = self._usual()[2] if self._limit == math.inf else self._limit
        (rounded,) = struct.unpack("f", struct.pack("f", min(limit, _LARGEST_FP32)))
        return float(rounded)

    def snapshot(self) -> Snapshot:
        """The window, its statistics, and the suspicious steps."""
        return Snapshot(
            values={
                "losses": list(self._losses),
                "norms": list(self._norms),
                "rate": self._rate,
                "until_fit": self._until_fit,
                "recent": self._recent,
                "limit": self._limit,
                "center": self._center,
                "deviation": self._deviation,
                "norm": self._norm,
            }
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state."""
        values = snapshot.values
        self._losses = _window(values["losses"])
        self._norms = _window(values["norms"])
        self._rate = float(values["rate"])
        self._until_fit = int(values["until_fit"])
        self._recent = int(values["recent"])
        self._limit = float(values["limit"])
        self._center = float(values["center"])
        self._deviation = float(values["deviation"])
        self._norm = float(values["norm"])

    def _suspect(self, loss: float, norm: float, z: float) -> Spike | None:
        self._recent = (self._recent << 1 | 1) & _MASK
        if self._recent.bit_count() < _NEEDED:
            return None
        began = self._recent.bit_length()
        return Spike(began, loss, math.exp(self._center), z, norm, self._norm)

    def _fit(self) -> None:
        self._until_fit = _FIT_EVERY
        self._norm = sorted(self._norms)[len(self._norms) // 2]
        self._center, self._deviation, self._limit = self._usual()

    def _usual(self) -> tuple[float, float, float]:
        """Median and standard deviation of the log-losses, and the lowest suspicious loss."""
        if min(self._losses) <= 0:
            return self._center, self._deviation, math.inf
        middle = len(self._losses) // 2
        logs = sorted(map(math.log, self._losses))
        center = logs[middle]
        spread = sorted([abs(log - center) for log in logs])[middle]
        deviation = max(_MAD_TO_DEVIATION * spread, _LEAST_DEVIATION)
        rise = max(self._threshold * deviation, _LEAST_RISE)
        return center, deviation, math.exp(min(center + rise, _LARGEST_LOG))


def _window(values: Iterable[float]) -> deque[float]:
    return deque((float(value) for value in values), maxlen=_WINDOW)
