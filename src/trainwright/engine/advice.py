"""Remedies that guard messages suggest: contract keys, or arguments in a script."""

from __future__ import annotations

from typing import NamedTuple, final


@final
class Advice(NamedTuple):
    """Suggested remedies: for the training itself, and the policies for non-finite values and for
    spikes."""

    mend: str
    skip: str
    roll_back: str


OF_CONTRACTS = Advice(
    "Inspect these rows, lower training.optimizer.learning_rate, or clip with "
    "training.gradient_clipping",
    "drop such steps: training.guard.non_finite: skip",
    "roll back automatically: training.guard.spike: rollback",
)
OF_SCRIPTS = Advice(
    "Inspect these rows, lower the optimizer's lr, or clip with "
    "tw.OptimizerStep(..., max_norm=1.0)",
    'drop such steps: Job(guard=tw.PolicyGuard(tw.Guard(non_finite="skip"), ...))',
    'roll back automatically: tw.Guard(spike="rollback")',
)
