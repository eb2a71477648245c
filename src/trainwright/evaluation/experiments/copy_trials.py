"""Re-evaluation of images and texts without copies of training data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from trainwright.contract.sections.data.data import Data, fold_count
from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.slices import Slice
from trainwright.data.audit.image_overlap import ImageCopies, copies_of
from trainwright.data.audit.text_overlap import text_copies
from trainwright.data.base.table import Integers
from trainwright.data.quality.copies.near_duplicate_images import image_groups
from trainwright.data.types import Prepared
from trainwright.evaluation.clause import Clause
from trainwright.evaluation.experiments.exclusion_trial import ExclusionTrial, without_rows
from trainwright.evaluation.experiments.suspects import Suspect, accepted_reason
from trainwright.evaluation.scored_part import Scored


@final
@dataclass(frozen=True)
class JudgedCopies:
    """A run evaluated on images or text segments. `folds` is the fold of each evaluated row, all 0
    without folds."""

    prepared: Prepared
    section: Data
    scored: Scored
    clauses: tuple[Clause, ...]
    metric: Metric
    slices: Sequence[Slice]
    folds: Integers
    seed: int

    @cached_property
    def images(self) -> ImageCopies:
        """Evaluated images that duplicate a training image; under cross-validation the other folds
        are the training images."""
        judged = self.scored.part.inputs.pictures()
        train = self.prepared.train.inputs.pictures()
        if fold_count(self.section):
            return copies_of(image_groups([judged]), self.folds)
        sides = np.repeat([0, 1], [len(train), len(judged)])
        found = copies_of(image_groups([train, judged]), sides)
        return ImageCopies(found.exact[len(train) :], found.near[len(train) :])


def try_copies(suspicion: Suspect, judged: JudgedCopies) -> ExclusionTrial:
    """Trial of one finding. Excluding near copies also excludes exact ones, unless the contract
    accepts those."""
    match suspicion.trial:
        case "equal images":
            return without_rows(judged.images.exact, judged, "image")
        case "near images":
            exact, near = judged.images.exact, judged.images.near
            accepted = accepted_reason("exact_duplicates", (), judged.section.audit.accept)
            return without_rows(near if accepted else near | exact, judged, "image")
        case "copied text":
            copied = text_copies(judged.prepared, (judged.scored.part,)).copied
            return without_rows(copied, judged, "segment")
        case _:
            raise AssertionError(f"neither images nor a text have {suspicion.trial}")
