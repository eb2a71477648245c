"""What the families of boosted trees have in common. Imports without torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy.typing as npt

from trainwright.contract.sections.model.trees import BoostedTrees
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.model.family import LearningTask, Scorer
from trainwright.model.library_family import LibraryFit, LibraryJob, TreeFamily
from trainwright.model.tree_growth import (
    NOTHING_GROWN,
    UNDIRECTED,
    Grown,
    Watching,
    choose_objective,
    class_weight_problems,
    count_problems,
    monotone_problems,
    objective_problems,
    several_problems,
)

if TYPE_CHECKING:
    from trainwright.model.trees.round_watcher import BoostingRecord

B = TypeVar("B", bound=BoostedTrees)


class BoostedFamily(TreeFamily[B]):
    """Gradient-boosted trees. `objectives` are the losses that the library has, `undirected` those
    that it does not hold to monotone constraints."""

    objectives: ClassVar[tuple[str, ...]]
    undirected: ClassVar[frozenset[str]] = UNDIRECTED
    weighs_labels: ClassVar[bool] = True
    """Has each label class weights of its own?"""

    def choices(self, section: B, task: LearningTask) -> Mapping[str, tuple[Json, str]]:
        """The loss follows the metric."""
        broken = self.undirected if section.monotone else ()
        known = [name for name in self.objectives if name not in broken]
        return choose_objective(task, known, section.monotone)

    def problems(self, section: B, task: LearningTask) -> Iterator[Problem]:
        """The loss must match the task."""
        yield from objective_problems(section.objective, task)
        weighed = section.class_weights
        yield from class_weight_problems(weighed, task, of_labels=self.weighs_labels)
        yield from monotone_problems(section.monotone, task, section.objective, self.undirected)

    def target_problems(self, section: B, target: npt.NDArray[Any]) -> Iterator[Problem]:
        """Counts must not be negative, nor all 0."""
        yield from count_problems(section.objective, target)

    def most_rounds(self, section: B) -> int:
        """See `TreeFamily`."""
        return section.max_trees

    def patience(self, section: B) -> int:
        """See `TreeFamily`."""
        return section.early_stopping_rounds

    def fit(self, section: B, job: LibraryJob) -> LibraryFit:
        """Grow all trees at once."""
        return self.grow(section, job, Watching(), NOTHING_GROWN)


class RecordedScorer(Scorer, Protocol):
    """Boosted trees with the record of their growth."""

    @property
    def record(self) -> BoostingRecord:
        """What the bundle says beside the trees."""
        ...


class RestartedFamily(BoostedFamily[B]):
    """Boosted trees that are not kept while they grow: a run that is killed grows them again.

    Several targets are learned together, by the library's own trees of several outputs, with one
    number of rounds; `several_objectives` are the losses that it has for numbers.
    """

    weighs_labels: ClassVar[bool] = False
    several_objectives: ClassVar[tuple[str, ...]]

    def choices(self, section: B, task: LearningTask) -> Mapping[str, tuple[Json, str]]:
        """The loss follows the metric, or is the only one for several numbers."""
        found = super().choices(section, task)
        known = self.several_objectives
        chosen = found["objective"][0]
        if task.task != "regression" or task.targets < 2 or chosen in known:
            return found
        return {**found, "objective": (known[0], "the library's loss of several targets")}

    def problems(self, section: B, task: LearningTask) -> Iterator[Problem]:
        """The loss must be one of several targets, where there are several."""
        yield from super().problems(section, task)
        yield from several_problems(section.objective, task, self.several_objectives)

    @abstractmethod
    def boost(self, section: B, job: LibraryJob, watching: Watching) -> RecordedScorer:
        """Grow all trees, from the first."""

    def grow(self, section: B, job: LibraryJob, watching: Watching, before: Grown) -> LibraryFit:
        """See `TreeFamily`."""
        assert before is NOTHING_GROWN, "no trees of this kind are kept"
        fitted = self.boost(section, job, watching)
        record = fitted.record
        several = record.several.targets
        kept = f"{many(record.kept, 'tree')} kept{f' of each of {several} targets' * bool(several)}"
        return LibraryFit(fitted, kept, (), record.kept, record.history())

    def environment(self) -> Mapping[str, Json]:
        """Version of the library."""
        with loading():
            library = import_module(self.package)

        return {self.package: library.__version__}
