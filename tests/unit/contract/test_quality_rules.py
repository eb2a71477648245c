"""Actions that cannot be done, ranges without a number, patterns that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake

HEAD = "data:\n  path: rows.csv\n  target: y\n"
TAIL = "model: {kind: boosting}\n"


@pytest.mark.parametrize(
    ("lines", "path", "said"),
    [
        (
            "  quality: {actions: {label_error: cap}}\n",
            "data.quality.actions.label_error",
            "report, drop, relabel, fail",
        ),
        ("  quality: {actions: {disk: fail}}\n", "data.quality.actions.disk", "report"),
        (
            "  quality: {look: quick, actions: {label_error: drop}}\n",
            "data.quality.look",
            "needs what a quick look leaves out",
        ),
        ("  columns: {a: {range: [9, 1]}}\n", "data.columns.a.range", "no number is in this range"),
        ("  columns: {a: {pattern: '['}}\n", "data.columns.a.pattern", "not a regular expression"),
        (
            "  quality: {actions: {exact_duplicate: drop}}\n",
            "data.quality.actions.exact_duplicate",
            "did you mean exact_duplicates?",
        ),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, lines: str, path: str, said: str) -> None:
    contract = tmp_path / "contract.yaml"
    contract.write_text(HEAD + lines + TAIL)
    with pytest.raises(ContractMistake) as refused:
        read_contract(contract)
    assert path in str(refused.value)
    assert said in str(refused.value)


def test_what_can_be_is_taken(tmp_path: Path) -> None:
    contract = tmp_path / "contract.yaml"
    lines = "  columns: {a: {range: [0, 1.5], allowed: ['1'], pattern: '[01]'}}\n"
    lines += "  quality: {look: quick, actions: {outliers: cap, exact_duplicates: drop}}\n"
    contract.write_text(HEAD + lines + TAIL)
    data = read_contract(contract).contract.data
    assert data.quality.actions == {"outliers": "cap", "exact_duplicates": "drop"}
    assert data.columns["a"].range == (0.0, 1.5)
