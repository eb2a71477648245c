"""`explanation.json`: what a model reads, measured on rows that it was not trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from trainwright.core.files import Json
from trainwright.evaluation.intervals.bootstrap import Interval

FORMAT = 1


@final
@dataclass(frozen=True, slots=True)
class ColumnImportance:
    """What the contract's metric loses on average when a column is permuted, with its interval;
    positive where the column helps. `mean_contribution` is the mean absolute SHAP value, nan for a
    model without."""

    column: str
    loss: Interval
    mean_contribution: float

    @property
    def includes_zero(self) -> bool:
        """Can this importance not be told from none?"""
        return not self.loss.given or self.loss.low <= 0 <= self.loss.high

    def to_json(self) -> Json:
        """The fields, null for what is not finite."""
        return {
            "column": self.column,
            **self.loss.to_json(),
            "includes_zero": self.includes_zero,
            "mean_contribution": _or_null(self.mean_contribution),
        }

    @classmethod
    def from_json(cls, json: Json) -> ColumnImportance:
        """Inverse of `to_json`."""
        mean = _or_nan(json["mean_contribution"])
        return cls(str(json["column"]), Interval.from_json(json), mean)


@final
@dataclass(frozen=True, slots=True)
class PartialDependence:
    """Mean prediction when every row has one value of a column (Friedman 2001, section 8.2).

    `values` are the G values as text, `numbers` the same as numbers, empty for categories;
    `means[g][k]` is the mean of output k: a class of `outputs`, or the value.
    """

    column: str
    values: tuple[str, ...]
    numbers: tuple[float, ...]
    outputs: tuple[str, ...]
    means: tuple[tuple[float, ...], ...]

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "column": self.column,
            "values": list(self.values),
            "numbers": list(self.numbers),
            "outputs": list(self.outputs),
            "means": [list(row) for row in self.means],
        }

    @classmethod
    def from_json(cls, json: Json) -> PartialDependence:
        """Inverse of `to_json`.

        Raises:
            ValueError: lengths that do not fit.
        """
        found = cls(
            str(json["column"]),
            tuple(map(str, json["values"])),
            tuple(map(float, json["numbers"])),
            tuple(map(str, json["outputs"])),
            tuple(tuple(map(float, row)) for row in json["means"]),
        )
        widths = {len(row) for row in found.means}
        if len(found.means) != len(found.values) or widths - {len(found.outputs)}:
            raise ValueError(f"partial dependence of {found.column!r}: lengths differ")
        if found.numbers and len(found.numbers) != len(found.values):
            raise ValueError(f"partial dependence of {found.column!r}: lengths differ")
        return found


@final
@dataclass(frozen=True, slots=True)
class Explanation:
    """Importances in descending order, partial dependence of the first of them, and on what they
    were measured: `rows` of the `of` rows of a part, so many `repeats` of each permutation."""

    part: str
    rows: int
    of: int
    units: int
    repeats: int
    metric: str
    value: float
    confidence: float
    seconds: float
    importances: tuple[ColumnImportance, ...]
    dependences: tuple[PartialDependence, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """What `from_json` reads; null for an undefined value."""
        return {
            "format": FORMAT,
            "part": self.part,
            "rows": self.rows,
            "of": self.of,
            "units": self.units,
            "repeats": self.repeats,
            "metric": self.metric,
            "value": _or_null(self.value),
            "confidence": self.confidence,
            "seconds": self.seconds,
            "importance": [one.to_json() for one in self.importances],
            "partial_dependence": [one.to_json() for one in self.dependences],
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, json: Json) -> Explanation:
        """Inverse of `to_json`.

        Raises:
            KeyError, TypeError, ValueError: invalid content.
        """
        if json["format"] != FORMAT:
            raise ValueError(f"an explanation of format {json['format']!r}, expected {FORMAT}")
        return cls(
            part=str(json["part"]),
            rows=int(json["rows"]),
            of=int(json["of"]),
            units=int(json["units"]),
            repeats=int(json["repeats"]),
            metric=str(json["metric"]),
            value=_or_nan(json["value"]),
            confidence=float(json["confidence"]),
            seconds=float(json["seconds"]),
            importances=tuple(map(ColumnImportance.from_json, json["importance"])),
            dependences=tuple(map(PartialDependence.from_json, json["partial_dependence"])),
            notes=tuple(map(str, json["notes"])),
        )


def _or_null(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else float(value)
