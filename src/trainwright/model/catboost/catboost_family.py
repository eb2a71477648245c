"""Family `catboost`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, final, get_args

from trainwright.contract.sections.model.trees import CatBoost, CatBoostObjective
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.model.family import Scorer
from trainwright.model.library_family import LibraryJob
from trainwright.model.tree_growth import Watching
from trainwright.model.trees.boosted_family import RecordedScorer, RestartedFamily


@final
class CatBoostFamily(RestartedFamily[CatBoost]):
    """Gradient-boosted trees by CatBoost; they are not kept while they grow."""

    scorer_kind: ClassVar[str] = "catboost"
    bundle_files: ClassVar[tuple[str, ...]] = ("boosting.json", "catboost.json")
    extra: ClassVar[str] = "catboost"
    package: ClassVar[str] = "catboost"
    objectives: ClassVar[tuple[str, ...]] = get_args(CatBoostObjective)
    several_objectives: ClassVar[tuple[str, ...]] = ("squared_error",)
    undirected: ClassVar[frozenset[str]] = frozenset({"quantile"})

    def describe(self, section: CatBoost) -> str:
        """Number of trees, and their depth."""
        return f"at most {many(section.max_trees, 'tree')} of depth {section.depth}"

    def watched(self, section: CatBoost, job: LibraryJob) -> str:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.catboost.catboost_fit import catboost_metric
            from trainwright.model.trees.target_scales import scale_job

        return catboost_metric(*scale_job(section, job)[:2])

    def boost(self, section: CatBoost, job: LibraryJob, watching: Watching) -> RecordedScorer:
        """See `RestartedFamily`."""
        with loading():
            from trainwright.model.catboost.catboost_fit import fit_catboost

        return fit_catboost(section, job, watching)

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.catboost.catboost_fit import read_catboost

        return read_catboost(folder)
