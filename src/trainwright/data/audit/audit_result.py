"""Result of one audit test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, final

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.core.files import Json
from trainwright.data.quality.finding import Finding, Severity

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
