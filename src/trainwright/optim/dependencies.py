"""Optional dependencies of optimizers. Imports no torch: checked before a run starts."""

from __future__ import annotations

from importlib.util import find_spec

from trainwright.contract.sections.training import optimizer as contract
from trainwright.core.errors import MissingExtra, Problem


def need_optimizer(section: contract.AnyOptimizer) -> None:
    """Raise `MissingExtra`, with the install command, if the optimizer's library is missing."""
    match section:
        case contract.Lamb() | contract.Lion() | contract.ScheduleFreeAdamW():
            module, extra = "pytorch_optimizer", "torch"
        case contract.AdamW8bit():
            module, extra = "bitsandbytes", "eightbit"
        case _:
            return
    if find_spec(module) is None:
        raise MissingExtra(
            Problem(
                f"the optimizer {section.name} needs the package {module}, which is not installed",
                path="training.optimizer.name",
                found=section.name,
                fix=f"pip install 'trainwright[{extra}]'",
            )
        )
