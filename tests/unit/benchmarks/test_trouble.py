"""The benchmark of early trouble: its runs are what it says, and a fault among them is told."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("benchmark_of_trouble", FOLDER / "trouble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_a_seed_gives_the_same_run_again_and_others_differ(bench: ModuleType) -> None:
    recipes = [bench.clean(seed) for seed in range(30)]
    assert len({recipe.task.kind for recipe in recipes}) == 6
    assert len({recipe.optimizer.name for recipe in recipes}) >= 5
    again = bench.clean(3)
    assert torch.equal(again.task.inputs, recipes[3].task.inputs)
    assert (again.network, again.optimizer) == (recipes[3].network, recipes[3].optimizer)


def test_a_fault_is_told_and_rightly_named(bench: ModuleType) -> None:
    build, right = bench.FAULTS["dead from the start"]
    found = bench.train(replace(build(5000), steps=300))
    assert {noted.kind for noted in found.told} & right


def test_a_clean_run_learns_and_nothing_is_told(bench: ModuleType) -> None:
    recipe = next(one for one in map(bench.clean, range(50)) if one.network.startswith("mlp"))
    found = bench.train(recipe)
    assert found.learned
    assert not found.told
