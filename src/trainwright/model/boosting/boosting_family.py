"""Family `boosting`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final, get_args

from trainwright.contract.sections.model.trees import Boosting, Objective
from trainwright.contract.sections.section import settled
from trainwright.core.files import Json
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.model.family import LearningTask, Scorer
from trainwright.model.library_family import LibraryFit, LibraryJob
from trainwright.model.tree_growth import Grown, Watching, curve_history
from trainwright.model.trees.boosted_family import BoostedFamily

if TYPE_CHECKING:
    from trainwright.data.quality.finding import Finding
    from trainwright.model.boosting.lightgbm_fit import BoostingJob


@final
class BoostingFamily(BoostedFamily[Boosting]):
    """Gradient-boosted trees by LightGBM."""

    scorer_kind: ClassVar[str] = "lightgbm"
    bundle_files: ClassVar[tuple[str, ...]] = ("boosting.json", "model.txt")
    objectives: ClassVar[tuple[str, ...]] = get_args(Objective)
    threads_change_bits: ClassVar[bool] = True

    def choices(self, section: Boosting, task: LearningTask) -> Mapping[str, tuple[Json, str]]:
        """The loss follows the metric, the leaves the rows: a small table would hardly be split."""
        least = max(5, min(20, task.rows // 100))
        found = super().choices(section, task)
        return {**found, "min_data_in_leaf": (least, f"{task.rows:,} training rows")}

    def findings(self, section: Boosting, rows: int, *, is_fold: bool) -> Iterator[Finding]:
        """Trees that cannot split."""
        from trainwright.data.quality.finding import Finding

        if rows >= 2 * settled(section.min_data_in_leaf):
            return
        least = many(settled(section.min_data_in_leaf), "training row")
        where = " in the smallest fold" if is_fold else ""
        fix = "lower it, or write model: {kind: linear}"
        message = (
            f"the trees cannot have a split: each leaf needs {least} (model.min_data_in_leaf), and "
            f"there are {rows:,}{where}, too few for two; {fix}"
        )
        yield Finding("unsplit_trees", "warning", message, rows, fix=fix)

    def describe(self, section: Boosting) -> str:
        """Number of trees, and their size."""
        return f"at most {many(section.max_trees, 'tree')} of {section.num_leaves} leaves"

    def watched(self, section: Boosting, job: LibraryJob) -> str:
        """See `TreeFamily`."""
        if job.quantiles:
            return "quantile"
        with loading():
            from trainwright.model.boosting.lightgbm_fit import watched_metric

        return watched_metric(_boosting_job(section, job.of_target(0) if job.are_several else job))

    def grow(
        self, section: Boosting, job: LibraryJob, watching: Watching, before: Grown
    ) -> LibraryFit:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.boosting.lightgbm_fit import fit_boosting

        if job.quantiles or job.are_several:
            return _grow_several(section, job, watching)
        boosted = fit_boosting(_boosting_job(section, job), watching, before)
        said = () if boosted.splits else (_without_splits(section, len(job.train)),)
        kept = f"{many(boosted.trees, 'tree')} kept"
        history = curve_history(boosted.metric, boosted.curve)
        return LibraryFit(boosted, kept, said, boosted.trees, history)

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.boosting.lightgbm_fit import read_boosted
        from trainwright.model.boosting.several_boosted import (
            names_quantiles,
            names_targets,
            read_quantiles,
            read_targets,
        )

        if names_targets(folder):
            return read_targets(folder)
        return read_quantiles(folder) if names_quantiles(folder) else read_boosted(folder)

    def read_grown(self, values: Json, outputs: int) -> Grown:
        """See `TreeFamily`."""
        with loading():
            from trainwright.model.boosting.lightgbm_dataset import read_grown

        return read_grown(values, outputs)

    def environment(self) -> Mapping[str, Json]:
        """Version of LightGBM."""
        with loading():
            import lightgbm

        return {"lightgbm": lightgbm.__version__}


def _grow_several(section: Boosting, job: LibraryJob, watching: Watching) -> LibraryFit:
    """Trees of each quantile, or of each target, side by side."""
    from trainwright.model.boosting.several_boosted import (
        BoostedQuantiles,
        BoostedTargets,
        fit_quantiles,
        fit_targets,
    )

    boosted: BoostedQuantiles | BoostedTargets
    rounds: tuple[int, ...] = ()
    if job.are_several:
        count = job.train.target.shape[1]
        jobs = [_boosting_job(section, job.of_target(at)) for at in range(count)]
        boosted = fit_targets(jobs, watching, job.rounds)
        rounds = tuple(one.trees for one in boosted.each)
        names = [f"target {at}" for at in range(1, count + 1)]
    else:
        boosted = fit_quantiles(_boosting_job(section, job), job.quantiles, watching)
        names = [f"{one:g}" for one in job.quantiles]
    said = () if boosted.splits else (_without_splits(section, len(job.train)),)
    each = " · ".join(f"{one}: {of.trees}" for one, of in zip(names, boosted.each, strict=True))
    kept = f"{many(boosted.trees, 'tree')} kept ({each})"
    history = curve_history(boosted.metric, boosted.curve)
    return LibraryFit(boosted, kept, said, boosted.trees, history, rounds)


def _boosting_job(section: Boosting, job: LibraryJob) -> BoostingJob:
    from trainwright.model.boosting.lightgbm_dataset import BoostingRows
    from trainwright.model.boosting.lightgbm_fit import BoostingJob

    centre, unit = 0.0, 1.0
    if job.outputs == 1:
        from trainwright.model.trees.target_scales import ANY_UNIT, scale_job

        section, job, scales = scale_job(section, job, ANY_UNIT)
        centre, unit = sum(scales.centres), max(scales.scales, default=1.0)
    return BoostingJob(
        section=section,
        train=BoostingRows.of(job.train, job.ranking.train),
        validation=BoostingRows.of(job.validation, job.ranking.validation),
        outputs=job.outputs,
        seed=job.seed,
        watch=job.metric,
        quantile=job.quantile,
        monotone=job.monotone,
        ranking=job.ranking,
        threads=job.threads,
        centre=centre,
        unit=unit,
    )


def _without_splits(section: Boosting, rows: int) -> str:
    least = settled(section.min_data_in_leaf)
    what = "the trees have no split, so every row gets the same answer"
    if rows >= 2 * least:
        return f"{what}: no column is worth one"
    return (
        f"{what}: each leaf needs {many(least, 'training row')} (model.min_data_in_leaf), and "
        "there are too few for two; lower it, or write model: {kind: linear}"
    )
