"""State of one stage of a pipeline, saved as that of the whole model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, final

from torch import Tensor

from trainwright.checkpoint.state import Snapshot, Stateful
from trainwright.core.files import Json

GatherStages = Callable[[Mapping[str, Tensor], Json], list[tuple[Mapping[str, Tensor], Json]]]
"""Tensors and values of every stage, on rank 0; nothing on others. All ranks call it."""


@final
class StageState:
    """State of the model or of its optimizer: on rank 0 a snapshot has that of all stages, under
    the names of the whole model, of which a stage restores its own.

    Args:
        stage: state of this stage.
        own: names of its parameters.
        gather: brings the stages together.
    """

    def __init__(self, stage: Stateful, own: Collection[str], gather: GatherStages) -> None:
        self._stage = stage
        self._own = frozenset(own)
        self._gather = gather

    def snapshot(self) -> Snapshot:
        """State of the whole model, on rank 0."""
        own = self._stage.snapshot()
        stages = self._gather(own.tensors, own.values)
        if not stages:
            return own
        tensors = {name: one for tensors, _ in stages for name, one in tensors.items()}
        values: Any = stages[0][1]
        for _, others in stages[1:]:
            if "groups" not in values:
                continue
            values["numbers"].update(others["numbers"])
            for group, other in zip(values["groups"], others["groups"], strict=True):
                group["names"] += other["names"]
        return Snapshot.owning(tensors, values)

    def restore(self, snapshot: Snapshot) -> None:
        """Restore this stage from the state of a whole model.

        Raises:
            Mistake: the state is of something else; nothing has changed.
        """
        values: Any = snapshot.values
        if "groups" in values:
            numbers = values["numbers"].items()
            values["numbers"] = {name: one for name, one in numbers if name in self._own}
            for group in values["groups"]:
                group["names"] = [name for name in group["names"] if name in self._own]
        tensors = {path: tensor for path, tensor in snapshot.tensors.items() if self._is_own(path)}
        self._stage.restore(Snapshot.owning(tensors, values))

    def _is_own(self, path: str) -> bool:
        """Is it a parameter of this stage, `state/<parameter>/<key>` of one, or an option?"""
        kind, _, rest = path.partition("/")
        return path in self._own or kind == "option" or rest.rpartition("/")[0] in self._own
