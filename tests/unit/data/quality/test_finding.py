"""Findings: what they hold, and how they are written."""

from __future__ import annotations

import polars as pl

from trainwright.data.quality.finding import Finding, findings_json, row_numbers_of, worst_first


def test_a_finding_is_written_with_these_fields() -> None:
    finding = Finding("leak", "error", "'b' alone has a ROC AUC of 1", 1, (3,), ("b",), "drop it")
    assert findings_json([finding]) == {
        "findings": [
            {
                "kind": "leak",
                "severity": "error",
                "count": 1,
                "rows": [3],
                "columns": ["b"],
                "message": "'b' alone has a ROC AUC of 1",
                "fix": "drop it",
            }
        ]
    }


def test_positions_are_ascending_and_whole_numbers() -> None:
    assert row_numbers_of(pl.Series([True, False, None, True])) == (0, 3)
    assert row_numbers_of(pl.Series([5, 2, 5], dtype=pl.UInt32)) == (2, 5)
    assert row_numbers_of([]) == ()


def test_the_worst_come_first() -> None:
    given = [Finding("disk", "info", "a"), Finding("leak", "error", "b")]
    assert [finding.kind for finding in worst_first(given)] == ["leak", "disk"]
