"""Units of several targets that one model of trees learns together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from trainwright.data.base.inputs import Floats
from trainwright.model.library_family import LibraryJob


@final
@dataclass(frozen=True, slots=True)
class TargetScales:
    """Mean and standard deviation of each of several numbers, or their count alone of labels.

    Trees that serve all targets, and a validation value that is the mean over them, would be ruled
    by the target with the largest unit: numbers are learned standardised.
    """

    targets: int = 0
    centres: tuple[float, ...] = ()
    scales: tuple[float, ...] = ()

    def learned(self, values: Floats) -> Floats:
        """Values as they are learned."""
        return (values - self.centres) / self.scales if self.centres else values

    def restored(self, values: Floats) -> Floats:
        """Inverse of `learned`."""
        return values * self.scales + self.centres if self.centres else values

    def check(self, outputs: int) -> None:
        """Check what was read of a file.

        Raises:
            ValueError: it contradicts itself.
        """
        numbers = np.array([*self.centres, *self.scales])
        wanted = self.targets if self.targets and outputs == 1 else 0
        is_whole = len(self.centres) == len(self.scales) == wanted
        is_sound = bool(np.isfinite(numbers).all()) and min(self.scales, default=1.0) > 0
        counts = self.targets == 0 or (self.targets > 1 and outputs in (1, 2))
        if not (is_whole and is_sound and counts):
            raise ValueError("boosting.json names targets that there are not")


ONE_TARGET = TargetScales()


def scales_of(job: LibraryJob) -> TargetScales:
    """Those of the training rows of a job."""
    if not job.are_several:
        return ONE_TARGET
    values = job.train.target
    count = values.shape[1]
    if job.are_labels:
        return TargetScales(count)
    deviations = values.std(axis=0)
    spread = np.where(deviations > 0, deviations, 1.0)
    return TargetScales(count, tuple(values.mean(axis=0).tolist()), tuple(spread.tolist()))
