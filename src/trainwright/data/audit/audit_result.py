"""Result of one audit test, and the sides of a split that tests compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, final

import polars as pl

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.contract.sections.data.split import Split, TimeSplit
from trainwright.core.files import Json
from trainwright.data.base.inputs import Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.finding import Finding, Severity, row_numbers_of
from trainwright.data.statistics.row_structure import RowStructure

Verdict = Literal["leak", "suspicious", "clean"]
"""`leak`: the score is invalid. `suspicious`: needs review. `clean`: checked, nothing found."""

Test = Literal[
    "same rows",
    "near rows",
    "interpolated rows",
    "near texts",
    "same images",
    "near images",
    "text overlap",
    "same groups",
    "future rows",
    "different rows",
    "tells the target",
    "function of the target",
    "later times",
]
"""In the order in which they are reported."""

_SEVERITIES: Mapping[Verdict, Severity] = {"leak": "error", "suspicious": "warning"}


@final
@dataclass(frozen=True, slots=True)
class AuditResult:
    """Result of one test. `number` is the measurement that `message` reports; `count` is the number
    of affected rows or columns, `rows` their positions in the data (truncated if there are very
    many)."""

    test: Test
    verdict: Verdict
    number: float
    message: str
    kind: FindingKind = "leak"
    count: int = 0
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    fix: str = ""

    @property
    def is_open(self) -> bool:
        """Can only an experiment show if it changes the score?"""
        return self.verdict == "suspicious" and self.test in (
            "same rows",
            "near rows",
            "near texts",
            "same images",
            "near images",
            "text overlap",
            "same groups",
            "future rows",
        )

    def to_json(self) -> Json:
        """The fields that every test has, by name."""
        return {
            "test": self.test,
            "verdict": self.verdict,
            "number": self.number,
            "message": self.message,
            "columns": list(self.columns),
        }

    def findings(self) -> tuple[Finding, ...]:
        """The result as findings; none if clean."""
        if self.verdict == "clean":
            return ()
        severity = _SEVERITIES[self.verdict]
        return (
            Finding(
                self.kind, severity, self.message, self.count, self.rows, self.columns, self.fix
            ),
        )


def findings_beside(
    audited: Iterable[AuditResult], faults: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Audit findings, without those that `faults` already reports for the same columns."""
    said = {(fault.kind, column) for fault in faults for column in fault.columns}
    return tuple(
        finding
        for one in audited
        for finding in one.findings()
        if not finding.columns or any((finding.kind, name) not in said for name in finding.columns)
    )


@final
@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides of the split: training rows and held-out rows (validation and test).

    `places` are the positions of the held-out rows in the data; `columns` are the features;
    `target` is String labels or numbers; `given`: the parts came in separate files; `drawn`: all
    of them were drawn at random from the same rows; `structures`: what the rows share, the most
    convincing first.
    """

    train: pl.DataFrame
    held_out: pl.DataFrame
    places: Integers
    columns: tuple[ColumnType, ...]
    target: str
    split: Split
    given: bool
    structures: tuple[RowStructure, ...] = ()
    drawn: bool = False

    @property
    def is_classes(self) -> bool:
        """Is the target a class?"""
        return self.train[self.target].dtype == pl.String

    @property
    def without_lags(self) -> Sides:
        """Without the columns that are lags of the target."""
        lagged = self.lags
        return replace(self, columns=tuple(c for c in self.columns if c.name not in lagged))

    @property
    def lags(self) -> dict[str, int]:
        """Under a time split, the lag (in rows) of columns that are lags of the target."""
        if not isinstance(self.split, TimeSplit):
            return {}
        from trainwright.data.statistics.lag_detection import lags

        return lags(self.train, self.of_kind("numeric"), self.target, self.split.moment)

    def held_out_rows(self, chosen: Integers) -> tuple[int, ...]:
        """Positions of held-out rows in the data."""
        return row_numbers_of(self.places[chosen])

    def of_kind(self, *kinds: str) -> tuple[str, ...]:
        """The names of the features of these kinds."""
        return tuple(column.name for column in self.columns if column.kind in kinds)
