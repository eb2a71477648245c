"""`training.validation`: how the validation rows are scored during the training."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.section import Count, Section


class ValidationPass(Section):
    """How the validation rows are scored during the training."""

    batch_size: Literal["default"] | Count = "default"
    """Rows in one forward pass of a validation, of a text its windows; no gradients are kept, so
    that more rows fit than in training. `default`: 8,192 rows of a table, 512 images, 8,192 tokens
    of a text. Halved where memory runs out, see `training.guard.out_of_memory`."""

    slices: bool = False
    """Measures the contract's slices at each validation too, each by its own metric."""
