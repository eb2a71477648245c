"""The benchmark measures what it says: both loops train, and its numbers come out."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "loop.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_of_the_loop", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "tiny_mlp", shortened(module.tiny_mlp))
    monkeypatch.setattr(module, "gpt_1m", shortened(module.gpt_1m))
    return module


def shortened(build: object) -> object:
    return lambda: replace(build(), steps=2, turns=1)


def test_the_json_has_a_ratio_of_each_workload(
    bench: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["loop.py", "--json", "--rounds", "1"])
    bench.main()
    ratios = json.loads(capsys.readouterr().out)["ratios"]
    assert set(ratios) == {"tiny_mlp", "gpt_1m"}
    assert all(ratio > 0 for ratio in ratios.values())


def test_the_models_are_as_large_as_they_are_called(bench: ModuleType) -> None:
    def count(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(bench.tiny_mlp().build()) == 16 * 64 + 64 + 64 + 1
    assert 0.9e6 < count(bench.gpt_1m().build()) < 1.1e6


@pytest.mark.parametrize("name", ["tiny_mlp", "gpt_1m"])
def test_both_loops_have_the_same_loss(bench: ModuleType, name: str) -> None:
    work = getattr(bench, name)()
    torch.manual_seed(0)
    model = work.build()
    batch = tuple(tensor[: work.batch] for tensor in work.tensors)
    summed = work.objective(model, batch)
    assert summed.targets == work.count_targets(batch)
    mean = work.mean_loss(model, batch).item()
    assert summed.sum.item() / summed.targets == pytest.approx(mean, rel=1e-5)
