"""Rules on keys that a model does not look at."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.contract.sections.model import kinds_with
from trainwright.contract.sections.training.training import OF_EVERY_MODEL
from trainwright.core.errors import Problem


def training_has_effect(contract: Contract, written: frozenset[str]) -> Iterator[Problem]:
    """Libraries do not fit by the loop that `training` describes; trees have a seed, which linear
    models do not, and are kept by the clock. A section without keys says nothing."""
    traits = contract.model.traits
    if traits.trained_by != "library" or "training" not in written:
        return
    of_training = {path for path in written if path.startswith("training.")}
    without = {
        path for path in of_training - traits.training_keys if _key(path) not in OF_EVERY_MODEL
    }
    if without:
        kept = ", and how often they are kept" if len(traits.training_keys) > 1 else ""
        also = f"; of {traits.unit}s seeds{kept}"
        network = kinds_with(lambda one: one.trained_by == "loop")[0]
        yield Problem(
            f"training has no effect on a model of kind {contract.model.kind}",
            path="training",
            found=", ".join(sorted({_key(path) for path in without})),
            expected=f"training only where model.kind is a network, such as {network}"
            f"{also if traits.training_keys else ''}",
            fix=f"remove training, or change model.kind to {network}",
        )


def _key(path: str) -> str:
    """The key of `training` that a path lies in; of checkpointing, which trees have too, the path
    itself."""
    of_checkpointing = path.startswith("training.checkpointing.")
    return path if of_checkpointing else ".".join(path.split(".")[:2])
