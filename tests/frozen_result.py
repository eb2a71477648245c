"""The keys of a result that programs rely on."""

from __future__ import annotations

from typing import Any

RESULT = [
    "baselines",
    "clauses",
    "findings",
    "metrics",
    "report",
    "run",
    "slices",
    "verdict",
    "warnings",
]
CLAUSE = ["against", "high", "low", "metric", "name", "slice", "status", "target", "value"]
INTERVAL = ["high", "low", "value"]


def assert_frozen(result: Any) -> None:
    """The keys that programs rely on."""
    assert sorted(result) == RESULT
    for clause in result["clauses"]:
        assert sorted(clause) == CLAUSE
    for score in result["metrics"].values():
        assert sorted(score) == INTERVAL
    assert sorted(result["baselines"]) == ["dummy", "linear"]
    for scores in result["baselines"].values():
        for score in scores.values():
            assert sorted(score) == INTERVAL
    for name, one in result["slices"].items():
        assert sorted(one) == ["roc_auc", "rows"], name
        assert sorted(one["roc_auc"]) == INTERVAL
    assert result["verdict"] in ("met", "missed", "undecided", "invalid")
