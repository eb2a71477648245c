"""Monitoring of trees that a library grows round by round: best round, curve, ending."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

from trainwright.core.faultpoints import reached
from trainwright.core.files import Json, read_json, write_json
from trainwright.data.base.typed_fields import check_annotated
from trainwright.model.tree_growth import CurvePoint, Watching, curve_history, next_point
from trainwright.model.trees.target_scales import ONE_TARGET, TargetScales


@final
class RoundWatcher:
    """Follows the validation value, of which less is better, and says when growth ends.

    Without validation rows the value is NaN, and all rounds are kept. Values are in a `unit`.
    """

    def __init__(self, patience: int, watching: Watching, unit: float = 1.0) -> None:
        self._patience = patience
        self._unit = unit
        self._watching = watching
        self._next = 1.0
        self.trees = self.best = 0
        self.best_value = math.inf
        self.curve: list[CurvePoint] = []

    @property
    def kept(self) -> int:
        """Trees of the final model: up to the best one, or all."""
        return self.best or self.trees

    def is_last(self, value: float, train_value: Callable[[], float]) -> bool:
        """Take notice of the next round: is it the last one?"""
        self.trees += 1
        value *= self._unit
        reached("tree")
        if math.isfinite(value):
            self._watching.tell(self.trees, value)
            if value < self.best_value:
                self.best, self.best_value = self.trees, value
            if self.trees >= self._next:
                self._next = next_point(self.trees)
                self.curve.append(CurvePoint(self.trees, train_value() * self._unit, value))
        has_waited = bool(self.best) and self.trees - self.best >= self._patience
        return has_waited or self._watching.is_interrupted() or self._watching.should_stop()


@final
@dataclass(frozen=True, slots=True)
class BoostingRecord:
    """What a bundle says of boosted trees beside the trees: the number of classes (1 for numbers),
    the watched metric with its curve, the trees kept, and the quantiles or targets that they
    predict, if several; of targets 2 classes are labels."""

    outputs: int
    metric: str
    kept: int
    curve: tuple[CurvePoint, ...] = ()
    quantiles: tuple[float, ...] = ()
    several: TargetScales = ONE_TARGET

    def write(self, folder: Path) -> None:
        """Write `boosting.json`."""
        curve = [[point.trees, point.train, point.validation] for point in self.curve]
        about = {"outputs": self.outputs, "metric": self.metric, "curve": curve, "kept": self.kept}
        several: Json = {"quantiles": list(self.quantiles)} if self.quantiles else {}
        found = self.several
        if found.targets or found.centres:
            scales = {"centres": list(found.centres), "scales": list(found.scales)}
            several |= {"targets": found.targets, **scales}
        write_json(folder / "boosting.json", {**about, **several})

    @property
    def score_columns(self) -> int:
        """Columns of scores: classes, quantiles, targets, or one value."""
        return len(self.quantiles) or self.several.targets or self.outputs

    def history(self) -> tuple[Mapping[str, float], ...]:
        """The validations on the curve, as `LibraryFit` has them."""
        return curve_history(self.metric, self.curve)


def read_boosting_record(folder: Path) -> BoostingRecord:
    """Read what `BoostingRecord.write` wrote.

    Raises:
        KeyError, TypeError, ValueError: invalid content.
    """
    about = read_json(folder / "boosting.json")
    curve = tuple(CurvePoint(int(trees), train, value) for trees, train, value in about["curve"])
    quantiles = tuple(about.get("quantiles", ()))
    scales = (tuple(about.get(name, ())) for name in ("centres", "scales"))
    several = TargetScales(about.get("targets", 0), *scales)
    kept = about["kept"]
    found = BoostingRecord(about["outputs"], about["metric"], kept, curve, quantiles, several)
    check_annotated(found, "boosting.json")
    check_annotated(several, "boosting.json")
    several.check(found.outputs)
    if found.outputs < 1 or found.kept < 0 or (quantiles and found.outputs > 1):
        raise ValueError("boosting.json counts less than nothing")
    return found
