from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake, Problem


def problems(folder: Path, tracking: str, model: str = "{kind: mlp}") -> Sequence[Problem]:
    path = folder / "c.yaml"
    path.write_text(f"data: {{path: rows.csv}}\nmodel: {model}\ntracking: {tracking}\n")
    try:
        read_contract(path)
    except ContractMistake as mistake:
        return mistake.problems
    return ()


@pytest.mark.parametrize(
    ("tracking", "path"),
    [
        ("{inspect: {}}", ""),
        ("{windows: off}", ""),
        ("{windows: off, inspect: {}}", "tracking.inspect"),
        ("{inspect: {which: [activations]}}", ""),
        ("{inspect: {which: [attention]}}", "tracking.inspect.which"),
    ],
)
def test_what_cannot_be_inspected_is_named(tracking: str, path: str, tmp_path: Path) -> None:
    found = problems(tmp_path, tracking)
    assert [problem.path for problem in found] == ([path] if path else [])
