"""The page of results: contracts that can be read, rows as they are shown, and sets that are not
measured twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import results
from trainwright.contract.reading.read_contract import read_contract

ROW: dict[str, Any] = {
    "name": "telco",
    "contract": "",
    "commit": "0123abcd",
    "measured": "Measured on 2026-01-01: a machine.",
    "cpu_seconds": 31.4,
    "wall_seconds": 92.0,
    "load": [3.1, 2.0],
}
JUDGED: dict[str, Any] = {
    "evaluation": {
        "rows": 1057,
        "units": 1057,
        "metrics": {"roc_auc": {"value": 0.85, "low": 0.83, "high": 0.87}},
        "baselines": {
            "dummy": {"roc_auc": {"value": 0.5}},
            "linear": {"roc_auc": {"value": 0.84}},
            "persistence": {"roc_auc": {"value": 0.6}},
        },
        "gains": {
            "dummy": {"roc_auc": {"value": 0.35, "low": 0.33, "high": 0.37}},
            "linear": {"roc_auc": {"value": 0.01, "low": -0.01, "high": 0.02}},
            "persistence": {"roc_auc": {"value": 0.25, "low": 0.2, "high": 0.3}},
        },
    },
    "verdict": {"status": "undecided"},
}
PLAN = {
    "contract": {"metric": {"name": "roc_auc"}, "model": {"kind": "boosting"}},
    "estimate": {"train_rows": 4930},
}


def test_every_set_has_a_contract_that_is_held_against_every_baseline() -> None:
    names = {path.stem for path in results.CONTRACTS.glob("*.yaml")}
    assert names == set(results.ORDER)
    for name in names:
        contract = read_contract(results.CONTRACTS / f"{name}.yaml").contract
        assert contract.name == name
        assert contract.metric.target == "every_baseline"


def test_the_encoders_are_trained_as_the_benchmark_of_texts_says() -> None:
    for setting in results.SETTINGS:
        contract = read_contract(results.CONTRACTS / f"{setting.name}.yaml").contract
        assert contract.model.model_dump()["max_length"] == setting.length
        assert contract.training.num_epochs == setting.epochs
        assert contract.training.optimizer.learning_rate == setting.rate


def test_fashion_is_trained_as_its_example() -> None:
    example = results.ROOT / "examples" / "fashion" / "contract.yaml"
    ours = read_contract(results.CONTRACTS / "fashion.yaml").contract
    theirs = read_contract(example).contract
    assert ours.training == theirs.training
    assert ours.model == theirs.model


def test_a_row_shows_the_best_of_the_baselines_that_learn() -> None:
    row = {**ROW, **results.row_of(JUDGED, PLAN)}
    assert results.line_of(row) == (
        "| telco | 4,930, 1,057 | `boosting` | `roc_auc` | 0.8500 (0.8300 to 0.8700) "
        "| linear 0.8400 | 0.0100 (-0.0100 to 0.0200) | undecided | 31 | 92 (3.1 to 2.0) |"
    )


def test_less_is_better_of_an_error() -> None:
    judged = json.loads(json.dumps(JUDGED).replace("roc_auc", "rmse"))
    plan = {**PLAN, "contract": {**PLAN["contract"], "metric": {"name": "rmse"}}}
    assert results.row_of(judged, plan)["baseline"] == "persistence"


def test_a_set_is_measured_once_and_again_when_its_contract_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("telco", "bike"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n")
    for name, value in (
        ("CONTRACTS", tmp_path),
        ("MEASURED", tmp_path / "measured.json"),
        ("PAGE", tmp_path / "results.md"),
        ("ORDER", ("telco", "bike")),
    ):
        monkeypatch.setattr(results, name, value)
    asked: list[str] = []

    def measured(name: str, data: Path, threads: int) -> dict[str, Any]:
        asked.append(name)
        if name == "bike" and asked.count("bike") == 1:
            raise KeyboardInterrupt
        text = results.contract_of(name)
        own = {"name": name, "contract": results.hash_bytes(text.encode())}
        return {**ROW, **results.row_of(JUDGED, PLAN), **own}

    monkeypatch.setattr(results, "measure", measured)
    with pytest.raises(KeyboardInterrupt):
        results.main([])
    results.main([])
    assert asked == ["telco", "bike", "bike"]
    (tmp_path / "telco.yaml").write_text("name: telco\n# changed\n")
    results.main([])
    assert asked == ["telco", "bike", "bike", "telco"]
    page = (tmp_path / "results.md").read_text()
    assert "| telco |" in page
    assert "| bike |" in page


def test_the_page_is_the_one_of_the_rows() -> None:
    assert results.PAGE.read_text(encoding="utf-8") == results.page_of(results.read_measured())
