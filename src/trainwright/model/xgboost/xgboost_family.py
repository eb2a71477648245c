"""Family `xgboost`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, final, get_args

import numpy.typing as npt

from trainwright.contract.sections.model.xgboost import XGBoost, XGBoostObjective
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
class XGBoostFamily(TreeFamily[XGBoost]):
    """Gradient-boosted trees by XGBoost; they are not kept while they grow."""

    scorer_kind: ClassVar[str] = "xgboost"
    bundle_files: ClassVar[tuple[str, ...]] = ("boosting.json", "xgboost.json")
    extra: ClassVar[str] = "xgboost"
    package: ClassVar[str] = "xgboost"

    def choices(self, section: XGBoost, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """The loss follows the metric."""
        return choose_objective(task, get_args(XGBoostObjective))

    def problems(self, section: XGBoost, task: LearningTask) -> Iterator[Problem]:
        """The loss must match the task."""
        yield from objective_problems(section.objective, task)
        yield from class_weight_problems(section.class_weights, task)
        yield from monotone_problems(section.monotone, section.objective, task)

    def target_problems(self, section: XGBoost, target: npt.NDArray[Any]) -> Iterator[Problem]:
        """Counts must not be negative, nor all 0."""
        yield from count_problems(section.objective, target)

    def describe(self, section: XGBoost) -> str:
        """Number of trees, and their depth."""
        return f"at most {many(section.max_trees, 'tree')} of depth {section.max_depth}"

    def most_rounds(self, section: XGBoost) -> int:
        """See `TreeFamily`."""
        return section.max_trees

    def patience(self, section: XGBoost) -> int:
        """See `TreeFamily`."""
        return section.early_stopping_rounds

    def watched(self, section: XGBoost, job: LibraryJob) -> str:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.xgboost.xgboost_trees import xgboost_metric

        return xgboost_metric(section, job)

    def fit(self, section: XGBoost, job: LibraryJob) -> LibraryFit:
        """Grow all trees at once."""
        return self.grow(section, job, Watching(), NOTHING_GROWN)

    def grow(
        self,
        section: XGBoost,
        job: LibraryJob,
        watching: Watching,
        before: Grown,
    ) -> LibraryFit:
        """Grow all trees, from the first: none were kept."""
        assert before is NOTHING_GROWN, "no trees of this kind are kept"
        with loading():
            from trainwright.model.xgboost.xgboost_trees import fit_xgboost

        fitted = fit_xgboost(section, job, watching)
        record = fitted.record
        kept = f"{many(record.kept, 'tree')} kept"
        return LibraryFit(fitted, kept, (), record.kept, record.history())

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.xgboost.xgboost_trees import read_xgboost

        return read_xgboost(folder)

    def environment(self) -> Mapping[str, Json]:
        """Version of XGBoost, and its threads."""
        with loading():
            import xgboost

            from trainwright.model.table_matrix import usable_cores

        return {"xgboost": xgboost.__version__, "threads": usable_cores()}
