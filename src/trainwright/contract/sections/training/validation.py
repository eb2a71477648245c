"""`training.validation`: how the validation rows are scored during the training."""

from __future__ import annotations

from typing import Literal

from trainwright.contract.sections.section import Count, Section


class ValidationPass(Section):
    """How the validation rows are scored during training."""

    batch_size: Literal["default"] | Count = "default"
    """Rows in one forward pass of a validation, of a text its windows; no gradients are kept, so
    that more rows fit than in training. `default`: 8,192 rows of a table, 512 images, 8,192 tokens
    of a text. Halved where memory runs out, see `training.guard.out_of_memory`."""

    rows: Literal["all"] | Count = "all"
    """Validation rows that are scored each time: `all`, or so many of them, drawn once with the
    contract's seed; of a text segments. A budget that all of them do not fit into takes fewer where
    nothing is written here."""

    slices: bool = False
    """Computes the contract's slices at each validation too, each by its own metric."""
