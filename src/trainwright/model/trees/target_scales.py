"""Units in which trees learn numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar, final

import numpy as np

from trainwright.contract.sections.model.trees import BoostedTrees
from trainwright.data.base.inputs import Floats
from trainwright.data.encoders.scaling import far_center
from trainwright.model.library_family import LibraryJob

_UNITS = (-6, 40)
"""Powers of two between which a standard deviation is learned unchanged: XGBoost makes no split
that gains less than 1e-6, and the squares of single precision end at 2**127."""

ANY_UNIT = (-120, 120)
"""Of a library that splits alike in any unit."""

_LARGEST, _NARROW = 2.0**100, 0.01

B = TypeVar("B", bound=BoostedTrees)


@final
@dataclass(frozen=True, slots=True)
class TargetScales:
    """Mean and standard deviation of each of several numbers, or their count alone of labels; of
    one number (`targets` 0) what is subtracted and divided by, if anything.

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

    def unit_of(self, metric: str) -> float:
        """What a value of the metric of learned numbers is multiplied by, for that of the target;
        the mean over several stays in learned units."""
        is_relative = self.targets or metric.lower() == "mape"
        return 1.0 if is_relative or not self.scales else self.scales[0]

    def check(self, outputs: int) -> None:
        """Check what was read of a file.

        Raises:
            ValueError: it contradicts itself.
        """
        numbers = np.array([*self.centres, *self.scales])
        wanted = (self.targets, 0 if self.targets else 1) if outputs == 1 else (0,)
        is_whole = len(self.centres) == len(self.scales) and len(self.scales) in wanted
        is_sound = bool(np.isfinite(numbers).all()) and min(self.scales, default=1.0) > 0
        counts = self.targets == 0 or (self.targets > 1 and outputs in (1, 2))
        if not (is_whole and is_sound and counts):
            raise ValueError("boosting.json names targets that there are not")


ONE_TARGET = TargetScales()


def scale_job(
    section: B, job: LibraryJob, units: tuple[int, int] = _UNITS
) -> tuple[B, LibraryJob, TargetScales]:
    """The job with targets as boosted trees learn them, and the section to learn them with."""
    target, scales = job.train.target, scales_of(job)
    of_rates = section.objective == "poisson"
    if not (job.are_several or job.outputs > 1 or job.ranking or of_rates):
        is_relative = "mape" in (section.objective, job.metric)
        if is_relative and target.std() < _NARROW * abs(far_center(target)):
            # Relative errors of such a target are absolute ones, and these can be centered.
            is_relative, job = False, replace(job, metric="mae")
            if section.objective == "mape":
                section = section.model_copy(update={"objective": "absolute_error"})
        every = np.concatenate([target, job.validation.target])
        scales = _smallest_as_one(every) if is_relative else choose_scale(target, units)
    train, validation = (
        replace(part, target=scales.learned(part.target)) for part in (job.train, job.validation)
    )
    return section, replace(job, train=train, validation=validation), scales


def choose_scale(values: Floats, units: tuple[int, int] = _UNITS) -> TargetScales:
    """Of one number [N], or of each of several [N, T]: 0 and 1, unless single precision or a fixed
    limit of a library would lose digits."""
    columns = values.reshape(len(values), -1).T
    centres = tuple(map(far_center, columns))
    powers = [round(np.log2(column.std() or 1.0)) for column in columns]
    low, high = units
    scales = tuple(1.0 if low <= power <= high else 2.0**power for power in powers)
    if not any(centres) and set(scales) == {1.0}:
        return ONE_TARGET
    return TargetScales(len(columns) if len(columns) > 1 else 0, centres, scales)


def _smallest_as_one(values: Floats) -> TargetScales:
    """Of a number judged by relative errors, which libraries divide by at least 1."""
    sizes = np.abs(values[values != 0])
    if not len(sizes):
        return ONE_TARGET
    return TargetScales(0, (0.0,), (float(max(sizes.min(), sizes.max() / _LARGEST)),))


def scales_of(job: LibraryJob) -> TargetScales:
    """Those of the training rows of a job of several targets."""
    if not job.are_several:
        return ONE_TARGET
    values = job.train.target
    count = values.shape[1]
    if job.are_labels:
        return TargetScales(count)
    deviations = values.std(axis=0)
    spread = np.where(deviations > 0, deviations, 1.0)
    return TargetScales(count, tuple(values.mean(axis=0).tolist()), tuple(spread.tolist()))
