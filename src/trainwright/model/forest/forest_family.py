"""Family `forest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, final

from trainwright.contract.sections.model.trees import Forest
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.model.family import LearningTask, Scorer
from trainwright.model.library_family import LibraryFamily, LibraryFit, LibraryJob
from trainwright.model.tree_growth import class_weight_problems, monotone_problems

_REHEARSED_TREES = 8
_FEWEST_TREES = 20
"""A mean of fewer is noisy."""


@final
class ForestFamily(LibraryFamily[Forest]):
    """Random forests and extremely randomised trees by scikit-learn."""

    scorer_kind: ClassVar[str] = "forest"
    bundle_files: ClassVar[tuple[str, ...]] = ("forest.json", "forest.npz")

    def choices(self, section: Forest, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """Columns that a split chooses among."""
        if task.task in ("classification", "multilabel"):
            return {"feature_fraction": ("sqrt", "the usual one for classes")}
        return {"feature_fraction": (1.0, "the usual one for numbers")}

    def problems(self, section: Forest, task: LearningTask) -> Iterator[Problem]:
        """Numbers have no classes to weigh, and labels share the trees."""
        yield from class_weight_problems(section.class_weights, task, of_labels=False)
        yield from monotone_problems(section.monotone, task)

    def describe(self, section: Forest) -> str:
        """Number of trees."""
        what = section.method.replace("_", " ")
        return f"{what} · {many(section.trees, 'tree')}"

    def rehearsal(self, section: Forest) -> tuple[Forest, float]:
        """A few of the trees."""
        few = min(section.trees, _REHEARSED_TREES)
        return section.model_copy(update={"trees": few}), section.trees / few

    def shortened(self, section: Forest, share: float) -> Sequence[Forest]:
        """Fewer trees: each is grown on its own."""
        few = min(section.trees, int(share * section.trees))
        return (section.model_copy(update={"trees": few}),) if few >= _FEWEST_TREES else ()

    def fit(self, section: Forest, job: LibraryJob) -> LibraryFit:
        """Grow all trees; the validation rows are not needed."""
        with loading():
            from trainwright.model.forest.forest_fit import fit_forest

        return LibraryFit(fit_forest(section, job), f"{many(section.trees, 'tree')} grown")

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.forest.forest_fit import read_forest

        return read_forest(folder)
