"""Family `linear`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, final

from trainwright.contract.sections.model.linear import Linear
from trainwright.contract.sections.section import settled
from trainwright.core.errors import Problem
from trainwright.core.files import Json
from trainwright.data.base.inputs import as_columns
from trainwright.model.family import LearnedNumber, LearningTask, Scorer
from trainwright.model.library_family import LibraryFamily, LibraryFit, LibraryJob
from trainwright.model.tree_growth import class_weight_problems


@final
class LinearFamily(LibraryFamily[Linear]):
    """Logistic, ridge and Poisson regression by scikit-learn."""

    scorer_kind: ClassVar[str] = "linear"
    bundle_files: ClassVar[tuple[str, ...]] = ("linear.json",)

    def choices(self, section: Linear, task: LearningTask) -> Mapping[str, tuple[Json, str]]:  # noqa: ARG002
        """A weaker penalty for texts."""
        if task.task in ("classification", "multilabel") and task.has_texts:
            return {"penalty": (0.1, "a text has many terms, each in few rows")}
        return {"penalty": (1.0, "the usual one")}

    def problems(self, section: Linear, task: LearningTask) -> Iterator[Problem]:
        """Numbers have no classes to weigh."""
        yield from class_weight_problems(section.class_weights, task)

    def describe(self, section: Linear) -> str:
        """The penalty."""
        return f"penalty {settled(section.penalty):g}"

    def fit(self, section: Linear, job: LibraryJob) -> LibraryFit:
        """Solve for the coefficients; the validation rows are not needed."""
        from trainwright.model.linear.linear_fit import fit_linear

        train = job.train
        linear = fit_linear(
            section,
            as_columns(train.inputs),
            train.target,
            job.outputs,
            job.cardinalities,
            LearnedNumber(job.is_count, job.quantiles),
            job.row_weights(section.class_weights),
        )
        return LibraryFit(linear, "solved", linear.warnings)

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.linear.linear_fit import read_linear

        return read_linear(folder)
