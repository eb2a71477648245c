"""How the outputs of a network become scores in the unit of the target, and back."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from trainwright.data.columns.target_kind import Target
from trainwright.objective.regression_losses import MOST_EXPONENT

_LEAST_EXPONENT = -300.0


@final
class OutputLink:
    """Inverse link of a target: softmax for classes, the unit of the target for numbers, and for
    counts the exponential times their mean (the log link of Poisson regression)."""

    def __init__(self, target: Target) -> None:
        self._scale = target.centre_and_spread
        self._is_log = target.is_count

    def learned(self, values: Tensor) -> Tensor:
        """Targets [N] as a loss expects them: codes, standardised numbers, or counts in units of
        their mean."""
        if not self._scale:
            return values
        centre, spread = self._scale
        return ((values - centre) / spread).float()

    def scores(self, outputs: Tensor) -> Tensor:
        """Class probabilities [N, C], or values [N, 1], of outputs of that shape."""
        if not self._scale:
            return torch.softmax(outputs, dim=1)
        if self._is_log:
            outputs = outputs.clamp(_LEAST_EXPONENT, MOST_EXPONENT).exp()
        centre, spread = self._scale
        return outputs * spread + centre

    def outputs(self, scores: Tensor) -> Tensor:
        """Outputs that have these scores; of classes those whose exponentials sum to 1."""
        if not self._scale:
            return scores.clamp_min(torch.finfo(torch.float32).tiny).log()
        centre, spread = self._scale
        values = (scores - centre) / spread
        return values.clamp_min(torch.finfo(torch.float32).tiny).log() if self._is_log else values
