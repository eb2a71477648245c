"""Family `catboost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, final, get_args

import numpy.typing as npt

from trainwright.contract.sections.model.catboost import CatBoost, CatBoostObjective
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.import_gc import loading
from trainwright.model.family import LearningTask
from trainwright.model.library_family import LibraryFit, LibraryJob, TreeFamily
from trainwright.model.scorer import Scorer
from trainwright.model.tree_growth import NOTHING_GROWN, Grown, Watching
from trainwright.model.tree_objective import (
    choose_objective,
    class_weight_problems,
    count_problems,
    monotone_problems,
    objective_problems,
)


@final
class CatBoostFamily(TreeFamily[CatBoost]):
    """Gradient-boosted trees by CatBoost; they are not kept while they grow."""

    scorer_kind: ClassVar[str] = "catboost"
    bundle_files: ClassVar[tuple[str, ...]] = ("boosting.json", "catboost.json")
    extra: ClassVar[str] = "catboost"
    package: ClassVar[str] = "catboost"

    def choices(self, section: CatBoost, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """The loss follows the metric."""
        return choose_objective(task, get_args(CatBoostObjective))

    def problems(self, section: CatBoost, task: LearningTask) -> Iterator[Problem]:
        """The loss must match the task."""
        yield from objective_problems(section.objective, task)
        yield from class_weight_problems(section.class_weights, task)
        yield from monotone_problems(section.monotone, section.objective, task)

    def target_problems(self, section: CatBoost, target: npt.NDArray[Any]) -> Iterator[Problem]:
        """Counts must not be negative, nor all 0."""
        yield from count_problems(section.objective, target)

    def describe(self, section: CatBoost) -> str:
        """Number of trees, and their depth."""
        return f"at most {many(section.max_trees, 'tree')} of depth {section.depth}"

    def most_rounds(self, section: CatBoost) -> int:
        """See `TreeFamily`."""
        return section.max_trees

    def patience(self, section: CatBoost) -> int:
        """See `TreeFamily`."""
        return section.early_stopping_rounds

    def watched(self, section: CatBoost, job: LibraryJob) -> str:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.catboost.catboost_trees import catboost_metric

        return catboost_metric(section, job)

    def fit(self, section: CatBoost, job: LibraryJob) -> LibraryFit:
        """Grow all trees at once."""
        return self.grow(section, job, Watching(), NOTHING_GROWN)

    def grow(
        self,
        section: CatBoost,
        job: LibraryJob,
        watching: Watching,
        before: Grown,
    ) -> LibraryFit:
        """Grow all trees, from the first: none were kept."""
        assert before is NOTHING_GROWN, "no trees of this kind are kept"
        with loading():
            from trainwright.model.catboost.catboost_trees import fit_catboost

        fitted = fit_catboost(section, job, watching)
        record = fitted.record
        kept = f"{many(record.kept, 'tree')} kept"
        return LibraryFit(fitted, kept, (), record.kept, record.history())

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.catboost.catboost_trees import read_catboost

        return read_catboost(folder)

    def environment(self) -> Mapping[str, Json]:
        """Version of CatBoost, and its threads."""
        with loading():
            import catboost

            from trainwright.model.table_matrix import usable_cores

        return {"catboost": catboost.__version__, "threads": usable_cores()}
