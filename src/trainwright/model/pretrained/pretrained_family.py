"""Family `pretrained`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import final

from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.model.family import Family, LearningTask


@final
class PretrainedFamily(Family[Pretrained]):
    """Published architectures: their contracts are checked, and not yet trained."""

    def choices(self, section: Pretrained, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """An output for each class."""
        return {"num_labels": (max(1, task.classes), "as many as the data has")}

    def problems(self, section: Pretrained, task: LearningTask) -> Iterator[Problem]:
        """The head has an output for each class."""
        if task.task == "classification" and section.num_labels != task.classes:
            yield Problem(
                f"the model has {section.num_labels} labels, but the target has {task.classes} "
                "classes",
                path="model.num_labels",
                found=str(section.num_labels),
                expected=str(task.classes),
                fix=f"change it to {task.classes}, or remove it",
            )
