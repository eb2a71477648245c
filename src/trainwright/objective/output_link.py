"""How the outputs of a network become scores in the unit of the target, and back."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from trainwright.data.columns.target import Target
from trainwright.objective.regression_losses import MOST_EXPONENT

_LEAST_EXPONENT = -300.0


@final
class OutputLink:
    """Inverse link of a target: softmax for classes, sigmoid for labels, the unit of the target for
    numbers, and for counts the exponential times their mean (the log link of Poisson
    regression)."""

    def __init__(self, target: Target) -> None:
        self._scale = target.centre_and_spread
        self._is_log = target.is_count
        self._are_labels = target.task == "multilabel"

    def learned(self, values: Tensor) -> Tensor:
        """Targets [N] as a loss expects them: codes, standardised numbers, or counts in units of
        their mean."""
        if not self._scale:
            return values
        centre, spread = self._centre_and_spread(values)
        return ((values - centre) / spread).float()

    def scores(self, outputs: Tensor) -> Tensor:
        """Class probabilities [N, C], or values [N, 1], of outputs of that shape."""
        if not self._scale:
            return torch.sigmoid(outputs) if self._are_labels else torch.softmax(outputs, dim=1)
        if self._is_log:
            outputs = outputs.clamp(_LEAST_EXPONENT, MOST_EXPONENT).exp()
        centre, spread = self._centre_and_spread(outputs)
        return outputs * spread + centre

    def outputs(self, scores: Tensor) -> Tensor:
        """Outputs that have these scores; of classes those whose exponentials sum to 1."""
        if self._are_labels:
            # As far from 0 and 1 as fp32 can tell from them.
            eps = torch.finfo(torch.float32).eps
            return torch.logit(scores.clamp(torch.finfo(torch.float32).tiny, 1 - eps))
        if not self._scale:
            return scores.clamp_min(torch.finfo(torch.float32).tiny).log()
        centre, spread = self._centre_and_spread(scores)
        values = (scores - centre) / spread
        return values.clamp_min(torch.finfo(torch.float32).tiny).log() if self._is_log else values

    def _centre_and_spread(self, like: Tensor) -> tuple[float | Tensor, float | Tensor]:
        """Of one number as floats; of T numbers [T] each."""
        half = len(self._scale) // 2
        if half == 1:
            return self._scale[0], self._scale[1]
        both = torch.tensor(self._scale, dtype=torch.float64, device=like.device)
        kind = like.dtype if like.is_floating_point() else torch.float64
        return both[:half].to(kind), both[half:].to(kind)
