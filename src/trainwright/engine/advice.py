"""What a guard advises at a bad step: keys of a contract, or arguments of a script."""

from __future__ import annotations

from typing import NamedTuple, final


@final
class Advice(NamedTuple):
    """What may mend the training, and what would go on by itself at a bad number and at a spike."""

    mend: str
    skip: str
    roll_back: str


OF_CONTRACTS = Advice(
    "Look at these rows, lower training.optimizer.learning_rate, or clip with "
    "training.gradient_clipping",
    "drop such steps: training.guard.non_finite: skip",
    "go back by itself: training.guard.spike: rollback",
)
OF_SCRIPTS = Advice(
    "Look at these rows, lower the optimizer's lr, or clip with "
    "tw.OptimizerStep(..., max_norm=1.0)",
    'drop such steps: Job(guard=tw.PolicyGuard(tw.Guard(non_finite="skip"), ...))',
    'go back by itself: tw.Guard(spike="rollback")',
)
