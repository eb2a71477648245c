"""Family `neighbours`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, final

import numpy.typing as npt

from trainwright.contract.sections.model.neighbours import Neighbours
from trainwright.core.errors import Problem
from trainwright.core.formatting import many
from trainwright.core.process import loading
from trainwright.data.base.inputs import Part
from trainwright.model.family import LearningTask, Scorer
from trainwright.model.library_family import LibraryFamily, LibraryFit, LibraryJob, numeric_width
from trainwright.model.tree_growth import class_weight_problems

_MOST_ROWS: Final = 200_000
"""Beyond it a row takes longer to score than it is worth, and the bundle holds too many rows."""


@final
class NeighboursFamily(LibraryFamily[Neighbours]):
    """k nearest neighbours by the k-d tree of scipy."""

    scorer_kind: ClassVar[str] = "neighbours"
    scores_by_rows: ClassVar[bool] = True
    bundle_files: ClassVar[tuple[str, ...]] = ("neighbours.json", "neighbours.npz")

    def problems(self, section: Neighbours, task: LearningTask) -> Iterator[Problem]:
        """Numbers have no classes to weigh."""
        yield from class_weight_problems(section.class_weights, task)

    def target_problems(self, section: Neighbours, target: npt.NDArray[Any]) -> Iterator[Problem]:
        """There are neighbours enough, and rows few enough."""
        rows = len(target)
        if rows > _MOST_ROWS:
            yield Problem(
                "nearest neighbours are for small tables",
                path="model.kind",
                found=many(rows, "training row"),
                expected=f"at most {_MOST_ROWS:,}",
                fix="model: {kind: boosting}",
            )
        if section.neighbours > rows:
            yield Problem(
                "there are fewer training rows than neighbours",
                path="model.neighbours",
                found=f"{section.neighbours:,} neighbours among {many(rows, 'training row')}",
                fix=f"change it to {min(15, rows)}",
            )

    def size_problems(
        self,
        section: Neighbours,  # noqa: ARG002
        train: Part,
        cardinalities: tuple[int, ...],
    ) -> Iterator[Problem]:
        """The rows as points fit into memory."""
        from trainwright.model.neighbours.nearest_rows import MOST_NUMBERS

        width = numeric_width(train.inputs) + sum(cardinalities)
        if len(train) * width > MOST_NUMBERS:
            yield Problem(
                "nearest neighbours are for small tables, each value of a category a column",
                path="model.kind",
                found=f"{many(len(train), 'training row')} x {many(width, 'encoded column')}",
                expected=f"at most {MOST_NUMBERS:,} numbers",
                fix="model: {kind: boosting}",
            )

    def describe(self, section: Neighbours) -> str:
        """Number of neighbours."""
        return many(section.neighbours, "neighbour")

    def fit(self, section: Neighbours, job: LibraryJob) -> LibraryFit:
        """Remember the training rows; the validation rows are not needed."""
        with loading():
            from trainwright.model.neighbours.nearest_rows import fit_neighbours

        return LibraryFit(fit_neighbours(section, job), f"{many(len(job.train), 'row')} remembered")

    def read(self, folder: Path) -> Scorer:
        """See `LibraryFamily`."""
        from trainwright.model.neighbours.nearest_rows import read_neighbours

        return read_neighbours(folder)
