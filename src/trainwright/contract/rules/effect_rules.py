"""Rules on keys that a model does not look at."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import Boosting, Linear
from trainwright.core.errors import Problem

_OF_TREES = frozenset(
    {
        "training.seeds",
        "training.checkpointing",
        "training.checkpointing.save_every_minutes",
        "training.checkpointing.expected_hours_between_failures",
        "training.checkpointing.on_failure",
    }
)
"""What of `training` trees have too."""


def training_has_effect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Boosting and linear models are not fitted by the loop that `training` describes; trees have a
    seed, which linear models do not, and are kept by the clock."""
    if not isinstance(contract.model, Boosting | Linear) or "training" not in written:
        return
    known = _OF_TREES if isinstance(contract.model, Boosting) else frozenset[str]()
    of_training = {path for path in written if path.startswith("training.")}
    without = of_training - known
    if without or not of_training:
        also = "; of trees seeds, and how often they are kept" if known else ""
        yield Problem(
            f"training has no effect on a model of kind {contract.model.kind}",
            path="training",
            found=", ".join(sorted({_key(path) for path in without})) or "training",
            expected=f"training only where model.kind is a network, such as mlp{also}",
            fix="remove training, or change model.kind to mlp",
        )


def _key(path: str) -> str:
    """The key of `training` that a path lies in; of checkpointing, which trees have too, the path
    itself."""
    of_checkpointing = path.startswith("training.checkpointing.")
    return path if of_checkpointing else ".".join(path.split(".")[:2])
