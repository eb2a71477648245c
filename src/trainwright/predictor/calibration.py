"""Calibration of class probabilities or quantiles and the threshold of the decision, fitted to the
scores of a model, as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, final, get_args

import numpy as np

from trainwright.core.files import Json
from trainwright.data.base.inputs import Floats, Integers

Method = Literal["none", "platt", "isotonic", "temperature", "conformal"]

FORMAT, LABELS_FORMAT = 1, 2
"""Earlier versions would read the thresholds of labels and decide without them."""

USUAL_THRESHOLD = 0.5
_LEAST = 1e-12
_NO_STEPS: Final = np.empty(0, np.int64)


@final
@dataclass(frozen=True, slots=True)
class Knots:
    """A monotone piecewise linear map through the points (x, y), constant outside."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@final
@dataclass(frozen=True, slots=True)
class Calibration:
    """A map from probabilities or quantiles to calibrated ones.

    `temperature` T: softmax(log p / T) (Guo et al. 2017, section 4.2). `lines` (slope, offset):
    sigmoid(slope * logit p + offset) (Platt 1999). `knots`: isotonic regression (Zadrozny and Elkan
    2002). The last two have one map for the second of two classes, or one for each of several,
    whose results are divided by their sum. `shifts` are added to quantiles, one for each
    (`conformal`: `conformal_shifts`), and `step_shifts` to those of forecasts, one for each in the
    place of the step. `threshold` is the probability from which on a row is
    given the positive class of two, `thresholds` are those of several labels. `rows` are the
    validation rows that it was fitted on, `tried` the cross-validated log loss of each method, if
    one was chosen.
    """

    method: Method = "none"
    temperature: float = 1.0
    lines: tuple[tuple[float, float], ...] = ()
    knots: tuple[Knots, ...] = ()
    shifts: tuple[float, ...] = ()
    step_shifts: tuple[tuple[float, ...], ...] = ()
    threshold: float = USUAL_THRESHOLD
    thresholds: tuple[float, ...] = ()
    rows: int = 0
    tried: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.method != "none" or self.threshold != USUAL_THRESHOLD or bool(self.thresholds)

    def apply(self, scores: Floats, steps: Integers = _NO_STEPS) -> Floats:
        """Calibrated probabilities [N, C] or quantiles [N, K], of forecasts so many `steps` [N]
        ahead; without a method the scores themselves."""
        match self.method:
            case "none":
                return scores
            case "conformal" if self.step_shifts:
                by_step = np.array(self.step_shifts, np.float64)
                return np.asarray(scores + by_step[np.minimum(steps, len(by_step)) - 1])
            case "conformal":
                return scores + np.array(self.shifts, np.float64)
            case "temperature":
                return _softmax(np.log(np.maximum(scores, _LEAST)) / self.temperature)
            case "platt":
                odds = logit(self._mapped(scores))
                slopes, offsets = np.array(self.lines, np.float64).T
                return _whole(1 / (1 + np.exp(-np.clip(slopes * odds + offsets, -700, 700))))
            case "isotonic":
                columns = self._mapped(scores).T
                maps = zip(columns, self.knots, strict=True)
                return _whole(np.stack([np.interp(p, one.x, one.y) for p, one in maps], axis=1))

    def decide(self, scores: Floats, positive: int) -> Integers | None:
        """Codes [N] of probabilities [N, 2] by the threshold, of labels [N, L] whether a row is
        given each; None where the likeliest class counts."""
        if self.thresholds:
            return (scores >= np.array(self.thresholds)).astype(np.int64)
        if self.threshold == USUAL_THRESHOLD:
            return None
        return np.where(scores[:, positive] >= self.threshold, positive, 1 - positive)

    def _mapped(self, scores: Floats) -> Floats:
        """The probabilities that are mapped: of the second of two classes, or of each."""
        return scores[:, 1:] if scores.shape[1] == 2 else scores

    def describe(self) -> str:
        """`temperature 1.31`, or the method; and the threshold."""
        is_one = self.method == "temperature"
        method = f"temperature {self.temperature:.3g}" if is_one else self.method
        if self.thresholds:
            low, high = min(self.thresholds), max(self.thresholds)
            return f"thresholds of {len(self.thresholds)} labels {low:.3g} to {high:.3g}"
        if self.threshold == USUAL_THRESHOLD:
            return method
        return f"{method} · threshold {self.threshold:.3g}"

    def check(self, outputs: int) -> None:
        """Check a map that was read. `outputs` are the classes, or the quantiles.

        Raises:
            ValueError: it cannot be one for so many outputs.
        """
        if self.thresholds:
            self._check_thresholds(outputs)
            return
        if self.method == "conformal":
            self._check_shifts(outputs)
            return
        if self.method not in get_args(Method):
            raise ValueError(f"a calibration by {self.method!r}")
        maps = 1 if outputs == 2 else outputs
        wanted = {"platt": (maps, 0), "isotonic": (0, maps)}.get(self.method, (0, 0))
        if outputs < 2 or (len(self.lines), len(self.knots)) != wanted:
            raise ValueError(f"a calibration by {self.method} of other outputs than {outputs}")
        if not 0 < self.threshold < 1 or (self.threshold != USUAL_THRESHOLD and outputs != 2):
            raise ValueError(f"a calibration whose threshold is {self.threshold}")
        numbers = [self.temperature, *(one for line in self.lines for one in line)]
        if not all(map(math.isfinite, numbers)) or self.temperature <= 0:
            raise ValueError("a calibration whose numbers are impossible")
        for one in self.knots:
            if len(one.x) != len(one.y) or not one.x or not _ascends(one.x) or not _ascends(one.y):
                raise ValueError("a calibration whose points do not ascend")
            if not 0 < one.y[0] <= one.y[-1] < 1:
                raise ValueError("a calibration whose values are no probabilities")

    def _check_thresholds(self, outputs: int) -> None:
        others = (self.method != "none", self.threshold != USUAL_THRESHOLD, self.shifts)
        if len(self.thresholds) != outputs or any(others):
            raise ValueError(f"thresholds of other labels than {outputs}")
        if not all(0 < one < 1 for one in self.thresholds):
            raise ValueError("thresholds that are no probabilities")

    def _check_shifts(self, outputs: int) -> None:
        others = (self.lines, self.knots, self.threshold != USUAL_THRESHOLD)
        each = self.step_shifts or (self.shifts,)
        both = bool(self.step_shifts and self.shifts)
        if both or any(len(one) != outputs for one in each) or any(others):
            raise ValueError(f"a calibration by conformal of other outputs than {outputs}")
        if not all(math.isfinite(shift) for one in each for shift in one):
            raise ValueError("a calibration whose numbers are impossible")

    def to_json(self) -> Json:
        """What `from_json` reads."""
        return {
            **({"shifts": list(self.shifts)} if self.shifts else {}),
            **({"step_shifts": list(map(list, self.step_shifts))} if self.step_shifts else {}),
            **({"thresholds": list(self.thresholds)} if self.thresholds else {}),
            "format": LABELS_FORMAT if self.thresholds else FORMAT,
            "method": self.method,
            "temperature": self.temperature,
            "lines": [list(line) for line in self.lines],
            "knots": [{"x": list(one.x), "y": list(one.y)} for one in self.knots],
            "threshold": self.threshold,
            "rows": self.rows,
            "tried": dict(self.tried),
        }

    @classmethod
    def from_json(cls, json: Json) -> Calibration:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        if json["format"] not in (FORMAT, LABELS_FORMAT):
            raise ValueError(f"a calibration of format {json['format']!r}, expected {FORMAT}")
        return cls(
            method=json["method"],
            temperature=float(json["temperature"]),
            lines=tuple((float(slope), float(offset)) for slope, offset in json["lines"]),
            knots=tuple(
                Knots(tuple(map(float, one["x"])), tuple(map(float, one["y"])))
                for one in json["knots"]
            ),
            shifts=tuple(map(float, json.get("shifts", ()))),
            step_shifts=tuple(tuple(map(float, one)) for one in json.get("step_shifts", ())),
            threshold=float(json["threshold"]),
            thresholds=tuple(map(float, json.get("thresholds", ()))),
            rows=int(json["rows"]),
            tried={str(name): float(loss) for name, loss in json["tried"].items()},
        )


NOT_CALIBRATED: Final = Calibration()


def logit(probabilities: Floats) -> Floats:
    """Log-odds, finite for 0 and 1."""
    inside = np.clip(probabilities, _LEAST, 1 - _LEAST)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _whole(mapped: Floats) -> Floats:
    """Probabilities [N, C] of mapped ones: with that of the first of two classes, or divided by
    their sum."""
    if mapped.shape[1] == 1:
        return np.concatenate([1 - mapped, mapped], axis=1)
    return np.asarray(mapped / mapped.sum(axis=1, keepdims=True))


def _ascends(values: Sequence[float]) -> bool:
    return all(map(math.isfinite, values)) and bool((np.diff(values) >= 0).all())
