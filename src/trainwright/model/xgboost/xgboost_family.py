"""Family `xgboost`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar, final, get_args

from trainwright.contract.sections.model.trees import XGBoost, XGBoostObjective
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.model.family import Scorer
from trainwright.model.library_family import LibraryJob
from trainwright.model.tree_growth import Watching
from trainwright.model.trees.boosted_family import RecordedScorer, RestartedFamily


@final
class XGBoostFamily(RestartedFamily[XGBoost]):
    """Gradient-boosted trees by XGBoost; they are not kept while they grow."""

    scorer_kind: ClassVar[str] = "xgboost"
    bundle_files: ClassVar[tuple[str, ...]] = ("boosting.json", "xgboost.json")
    extra: ClassVar[str] = "xgboost"
    package: ClassVar[str] = "xgboost"
    objectives: ClassVar[tuple[str, ...]] = get_args(XGBoostObjective)
    several_objectives: ClassVar[tuple[str, ...]] = ("squared_error", "absolute_error")

    def describe(self, section: XGBoost) -> str:
        """Number of trees, and their depth."""
        return f"at most {many(section.max_trees, 'tree')} of depth {section.max_depth}"

    def watched(self, section: XGBoost, job: LibraryJob) -> str:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.trees.target_scales import scale_job
            from trainwright.model.xgboost.xgboost_fit import xgboost_metric

        return xgboost_metric(*scale_job(section, job)[:2])

    def boost(self, section: XGBoost, job: LibraryJob, watching: Watching) -> RecordedScorer:
        """See `RestartedFamily`."""
        with loading():
            from trainwright.model.xgboost.xgboost_fit import fit_xgboost

        return fit_xgboost(section, job, watching)

    def start_tracker(self, ranks: int, address: str) -> AbstractContextManager[Mapping[str, Json]]:
        """See `LibraryFamily`."""
        with loading():
            from trainwright.model.xgboost.xgboost_ranks import start_tracker

        return start_tracker(ranks, address)

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.xgboost.xgboost_fit import read_xgboost

        return read_xgboost(folder)
