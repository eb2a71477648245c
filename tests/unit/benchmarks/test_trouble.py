"""The benchmark of early trouble: its runs are what it says, and a fault among them is told."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

import trouble  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.mark.extended
def test_a_seed_gives_the_same_run_again_and_others_differ() -> None:
    recipes = [trouble.clean(seed) for seed in range(30)]
    assert len({recipe.task.kind for recipe in recipes}) == 6
    assert len({recipe.optimizer.name for recipe in recipes}) >= 5
    again = trouble.clean(3)
    assert torch.equal(again.task.inputs, recipes[3].task.inputs)
    assert (again.network, again.optimizer) == (recipes[3].network, recipes[3].optimizer)


def test_a_fault_is_told_and_rightly_named() -> None:
    build, right = trouble.FAULTS["dead from the start"]
    found = trouble.train(replace(build(5000), steps=300))
    assert {noted.kind for noted in found.told} & right


@pytest.mark.extended
def test_a_clean_run_learns_and_nothing_is_told() -> None:
    recipe = next(one for one in map(trouble.clean, range(50)) if one.network.startswith("mlp"))
    found = trouble.train(recipe)
    assert found.learned
    assert not found.told
