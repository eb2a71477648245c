"""Contradictions of a purpose that only the rows show."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.contract.document import Contract
from trainwright.core.errors import Problem
from trainwright.data.columns.target import Target
from trainwright.data.read_table import DataFacts
from trainwright.data.split.split_report import SplitReport

_CALIBRATION = "training.calibration"
_DIVIDED_BY_DATA = ("column", "file")
"""Kinds of a split that the data says."""


def purpose_problems(
    contract: Contract,
    written: frozenset[str],
    target: Target,
    split: SplitReport,
    facts: DataFacts,
) -> Iterator[Problem]:
    """What a stated purpose has against the rows of a contract, of which `written` is spelled
    out."""
    match contract.purpose:
        case "production":
            yield from _calibration(written, target)
        case "benchmark":
            yield from _official_rows(split, facts)
        case "research" | "adapter" | "unstated":
            pass


def _calibration(written: frozenset[str], target: Target) -> Iterator[Problem]:
    """Probabilities and quantiles are calibrated, or said not to be."""
    if _CALIBRATION in written or not (target.classes or target.quantiles):
        return
    method = "conformal" if target.quantiles else "auto"
    what = "quantiles" if target.quantiles else "probabilities"
    yield Problem(
        f"whether the {what} of a model for production are calibrated is not said",
        path=_CALIBRATION,
        found="nothing",
        expected="a calibration, or that none is wanted",
        fix=f"write {_CALIBRATION}: {method}, or {_CALIBRATION}: none",
    )


def _official_rows(split: SplitReport, facts: DataFacts) -> Iterator[Problem]:
    """The data says which rows are judged."""
    if "test" in facts.given or split.kind in _DIVIDED_BY_DATA:
        return
    yield Problem(
        "a benchmark is judged on test rows that the data brings, and these are drawn",
        path="purpose",
        found=f"test rows of a split of kind {split.kind}",
        expected="a test part of its own, or a column or file that says where each row belongs",
        fix="name the test rows in data.test_path or data.split: {kind: column, column: NAME}, or "
        "remove purpose",
    )
