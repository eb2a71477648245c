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


def test_mlflow_needs_an_address(tmp_path: Path) -> None:
    found = problems(tmp_path, "{sinks: [mlflow]}")
    assert [problem.path for problem in found] == ["tracking.mlflow_uri"]
    assert problems(tmp_path, "{sinks: [mlflow], mlflow_uri: 'https://mlflow.example:443'}") == ()


@pytest.mark.parametrize(
    "uri",
    [
        "http://user:hunter2@mlflow.example",
        "https://mlflow.example/?token=0123456789abcdef0123",
    ],
)
def test_a_secret_in_an_address_is_refused(uri: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"{{sinks: [mlflow], mlflow_uri: '{uri}'}}")
    assert found.path == "tracking.mlflow_uri"
    assert "secret" in str(found)
    assert "hunter2" not in str(found)
    assert "0123456789abcdef" not in str(found)


@pytest.mark.parametrize("uri", ["mlflow.example:5000", "ftp://mlflow.example", "sqlite:///m.db"])
def test_what_is_no_address_is_refused(uri: str, tmp_path: Path) -> None:
    (found,) = problems(tmp_path, f"{{sinks: [mlflow], mlflow_uri: '{uri}'}}")
    assert found.path.startswith("tracking.mlflow_uri")
