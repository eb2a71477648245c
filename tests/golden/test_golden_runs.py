"""The digests of golden runs see each number that is fitted, and nothing that passes with time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from golden.compare import compare
from golden.golden_runs import CONTRACTS, digests_of
from trainwright.contract.sections.model import kinds_with


def write_run(
    folder: Path, weight: float, score: float, when: str, temperature: float = 1.5
) -> Path:
    """A run folder with an `evaluation.json` in the shape of a run's own."""
    (folder / "bundle").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    (folder / "checkpoints" / "network.safetensors").write_text(when)
    weights = {"weight": np.full(3, weight, np.float32)}
    save_file(weights, folder / "bundle" / "network.safetensors", metadata={"when": when})
    evaluation = {
        "evaluation": {"metrics": [{"name": "auc", "value": score}]},
        "calibration": {"temperature": temperature},
        "opened": [{"time": when}],
        "seconds": {"judge": len(when)},
    }
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    return folder


def test_digests_see_a_bit_of_a_weight_and_of_a_score_and_not_the_time(tmp_path: Path) -> None:
    base = digests_of(write_run(tmp_path / "base", 0.1, 0.7, "today"))
    again = digests_of(write_run(tmp_path / "again", 0.1, 0.7, "tomorrow"))
    weight = digests_of(
        write_run(tmp_path / "weight", float(np.nextafter(0.1, 1, dtype=np.float32)), 0.7, "today")
    )
    score = digests_of(write_run(tmp_path / "score", 0.1, float(np.nextafter(0.7, 1)), "today"))
    heated = digests_of(write_run(tmp_path / "heated", 0.1, 0.7, "today", temperature=1.6))
    assert compare(base, again) == "same (2 files)"
    assert compare(base, heated) == "DIFFERS in evaluation.json"
    assert compare(base, weight) == "DIFFERS in bundle/network.safetensors"
    assert compare(base, score) == "DIFFERS in evaluation.json"


def test_a_file_that_is_gone_and_a_run_that_fails_differ() -> None:
    assert compare({"model.txt": "0"}, {}) == "DIFFERS in model.txt"
    added = {"model.txt": "0", "more.txt": "1"}
    assert compare({"model.txt": "0"}, added) == "DIFFERS in more.txt"
    assert compare({}, {}).startswith("FAILS")
    assert compare({"model.txt": "0"}, "exit code 1: Traceback") == "FAILS: exit code 1: Traceback"
    assert compare("exit code 2: no such kind", {"model.txt": "0"}).startswith("new")


@pytest.mark.parametrize("kind", kinds_with(lambda _: True))
def test_every_family_has_a_golden_run(kind: str) -> None:
    assert any(f"kind: {kind}" in contract for contract in CONTRACTS.values())
