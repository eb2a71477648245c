"""Finding: the result of every data check, and what the actions did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, final

import numpy as np
import polars as pl

from trainwright.contract.sections.data.quality import FindingKind
from trainwright.core.files import Json
from trainwright.data.base.inputs import Integers
from trainwright.data.base.messages import AppliedAction, quoted
from trainwright.data.columns.typed_rows import Limit

Severity = Literal["error", "warning", "info"]
"""`error`: a model trained on this is invalid. `warning`: needs review. `info`: often harmless."""

Subset = Literal["all", "by_models", "others"]
"""Which checks: those that fit models on the rows take about as long as all others."""

MOST_ROWS = 100_000
"""Limit of the positions written; `count` still counts all."""

_ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One fault and its rows or columns.

    `count` is the number of rows, or of columns for a fault of whole columns. `rows` are 0-based
    positions in the data: in the file, or in the concatenation of the training, validation and test
    files where the contract names several. `message` gives the number that shows the fault, `fix`
    the remedy.
    """

    kind: FindingKind
    severity: Severity
    message: str
    count: int = 0
    rows: tuple[int, ...] = ()
    columns: tuple[str, ...] = ()
    fix: str = ""

    def to_json(self) -> Json:
        """The fields by name."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "count": self.count,
            "rows": list(self.rows[:MOST_ROWS]),
            "columns": list(self.columns),
            "message": self.message,
            "fix": self.fix,
        }


def row_numbers_of(rows: pl.Series | Iterable[int]) -> tuple[int, ...]:
    """Row positions as a finding holds them: ascending and unique. A Boolean column is a mask."""
    if isinstance(rows, pl.Series):
        rows = rows.arg_true() if rows.dtype == pl.Boolean else rows
        rows = rows.to_numpy()
    numbers = rows if isinstance(rows, np.ndarray) else np.array(list(rows), dtype=np.int64)
    numbers = numbers.astype(np.int64, copy=False)
    ascending = bool((np.diff(numbers) > 0).all())
    return tuple((numbers if ascending else np.unique(numbers)).tolist())


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort by severity (errors, warnings, info), stable otherwise."""
    return tuple(sorted(findings, key=lambda finding: _ORDER[finding.severity]))


def one_a_kind(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The first finding of each kind and severity, in the order given, with the columns or the
    number of the others."""
    alike: dict[tuple[FindingKind, Severity], list[Finding]] = {}
    for finding in findings:
        alike.setdefault((finding.kind, finding.severity), []).append(finding)
    return tuple(_with_others(first, others) for first, *others in alike.values())


def _with_others(first: Finding, others: Sequence[Finding]) -> Finding:
    if not others:
        return first
    columns = dict.fromkeys(name for one in others for name in one.columns)
    new = [name for name in columns if name not in first.columns]
    where = f": {quoted(new, 3)}" if new else ""
    return replace(first, message=f"{first.message} (and {len(others):,} more{where})")


def findings_json(findings: Sequence[Finding]) -> Json:
    """`{"findings": [...]}`, as `data check --json` prints it."""
    return {"findings": [finding.to_json() for finding in findings]}


@final
@dataclass(frozen=True, slots=True)
class Acted:
    """Result of the quality actions: the training rows and their `places` (positions in their
    file), the `columns` that are no longer features, and the `limits` of the features."""

    train: pl.DataFrame
    places: Integers
    columns: frozenset[str] = frozenset()
    limits: tuple[Limit, ...] = ()
    done: tuple[AppliedAction, ...] = ()
