"""What one test of the audit found, and the rows it looks at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, final

import polars as pl

from trainwright.contract.data import Split, TimeSplit
from trainwright.contract.quality import FindingKind
from trainwright.core.files import Json
from trainwright.data.base.table import Integers
from trainwright.data.columns.column_kinds import ColumnType
from trainwright.data.quality.finding import Finding, Severity, row_numbers_of
from trainwright.data.statistics.lag_detection import lags

Verdict = Literal["leak", "suspicious", "clean"]
"""`leak`: the score is not what it seems. `suspicious`: a person should look. `clean`: looked for
and not found."""

Test = Literal[
    "same rows",
    "near rows",
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
"""In the order in which they are told."""

_SEVERITIES: Mapping[Verdict, Severity] = {"leak": "error", "suspicious": "warning"}


@final
@dataclass(frozen=True, slots=True)
class AuditResult:
    """One test. `number` is what was measured, as `message` says it; `count` rows or columns are
    concerned, `rows` their positions in the data (the first of very many)."""

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
        """Whether only an experiment can show if it changes the score."""
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
        """What a person should know of it: nothing if it is clean."""
        if self.verdict == "clean":
            return ()
        severity = _SEVERITIES[self.verdict]
        return (
            Finding(
                self.kind, severity, self.message, self.count, self.rows, self.columns, self.fix
            ),
        )


@final
@dataclass(frozen=True, slots=True)
class Sides:
    """The rows on both sides of the split: those that train, and those that are held out
    (validation and test).

    `train_places` and `places` are their positions in the data; `columns` are the features;
    `target` is String labels or numbers; `given` says that the parts came in files of their own.
    """

    train: pl.DataFrame
    held_out: pl.DataFrame
    train_places: Integers
    places: Integers
    columns: tuple[ColumnType, ...]
    target: str
    split: Split
    given: bool

    @property
    def is_classes(self) -> bool:
        """Whether the target is a class."""
        return self.train[self.target].dtype == pl.String

    @property
    def without_lags(self) -> Sides:
        """The same without the columns that hold the target of an earlier row."""
        lagged = self.lags
        return replace(self, columns=tuple(c for c in self.columns if c.name not in lagged))

    @property
    def lags(self) -> dict[str, int]:
        """Under a time split, how many rows earlier the target stood that a column holds."""
        if not isinstance(self.split, TimeSplit):
            return {}
        return lags(self.train, self.of_kind("numeric"), self.target, self.split.moment)

    def held_out_rows(self, chosen: Integers) -> tuple[int, ...]:
        """Held-out rows as positions in the data."""
        return row_numbers_of(self.places[chosen])

    def of_kind(self, *kinds: str) -> tuple[str, ...]:
        """The names of the features of these kinds."""
        return tuple(column.name for column in self.columns if column.kind in kinds)


def findings_beside(
    audited: Iterable[AuditResult], faults: Iterable[Finding]
) -> tuple[Finding, ...]:
    """What the audit found, without the columns of which `faults` says the same already."""
    said = {(fault.kind, column) for fault in faults for column in fault.columns}
    return tuple(
        finding
        for one in audited
        for finding in one.findings()
        if not finding.columns or any((finding.kind, name) not in said for name in finding.columns)
    )
