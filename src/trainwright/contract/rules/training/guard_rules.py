"""Rules about what the guard of a training goes back to."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem


def rollback_has_the_optimizer(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """A state without the optimizer's is not one to go back to."""
    training = contract.training
    if training.checkpointing.save_optimizer_state:
        return
    policies = (("non_finite", training.guard.non_finite), ("spike", training.guard.spike))
    for key, policy in policies:
        path = f"training.guard.{key}"
        if path in written and (policy == "rollback" or (key, policy) == ("non_finite", "skip")):
            yield Problem(
                f"{policy} needs checkpoints that hold the optimizer",
                path=path,
                found=policy,
                expected="training.checkpointing.save_optimizer_state true",
                fix=f"write training.checkpointing.save_optimizer_state: true, or {path}: raise",
            )
