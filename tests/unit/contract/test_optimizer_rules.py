from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.training import optimizer as optimizers
from trainwright.core.errors import ContractMistake, Problem
from trainwright.planner.resolve.training_choices import learning_rates


def problems(folder: Path, training: str) -> Sequence[Problem]:
    path = folder / "c.yaml"
    path.write_text(f"data: {{path: rows.csv}}\nmodel: {{kind: mlp}}\ntraining: {training}\n")
    try:
        read_contract(path)
    except ContractMistake as mistake:
        return mistake.problems
    return ()


@pytest.mark.parametrize(
    ("training", "path"),
    [
        ("{optimizer: {learning_rate: 0.1}}", ""),
        ("{optimizer: {name: schedule_free_adamw}}", "training.scheduler.name"),
        (
            "{optimizer: {name: schedule_free_adamw},"
            " scheduler: {name: constant, warmup_ratio: 0.05}}",
            "",
        ),
        (
            "{optimizer: {name: sgd, nesterov: true, momentum: 0.0}}",
            "training.optimizer.nesterov",
        ),
        ("{optimizer: {name: sgd, nesterov: true}}", ""),
        (
            "{scheduler: {name: linear, warmup_steps: 9, warmup_ratio: 0.1}}",
            "training.scheduler.warmup_steps",
        ),
        ("{scheduler: {name: linear, warmup_steps: 9}}", ""),
        ("{scheduler: {warmup_steps: 9}}", ""),
        ("{scheduler: {warmup_steps: 9, warmup_ratio: 0.1}}", "training.scheduler.warmup_steps"),
        (
            "{scheduler: {name: warmup_stable_decay, warmup_ratio: 0.3, decay_ratio: 0.8}}",
            "training.scheduler.decay_ratio",
        ),
        ("{scheduler: {name: step, milestones: [0.5, 0.2]}}", "training.scheduler.milestones"),
        ("{scheduler: {name: step, milestones: [0.2, 0.5]}}", ""),
        (
            "{scheduler: {name: reduce_on_plateau, patience: 5}}",
            "training.scheduler.patience",
        ),
        ("{scheduler: {name: reduce_on_plateau, patience: 5}, early_stopping: off}", ""),
        ("{optimizer: {name: adamw, momentum: 0.9}}", "training.optimizer.momentum"),
        ("{optimizer: {name: rmsprop}}", "training.optimizer.name"),
        ("{optimizer: {base_batch_size: 64}}", "training.optimizer.base_batch_size"),
        ("{optimizer: {base_batch_size: 64, batch_scaling: sqrt}}", ""),
        ("{optimizer: {layer_decay: 1.5}}", "training.optimizer.layer_decay"),
        ("{freeze: {body: 0}}", "training.freeze.body"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path: Path, training: str, path: str) -> None:
    found = problems(tmp_path, training)
    assert [problem.path for problem in found] == ([path] if path else [])
    assert all(problem.fix for problem in found)


SECTIONS: list[optimizers.AnyOptimizer] = [
    optimizers.Sgd(name="sgd"),
    optimizers.Adam(name="adam"),
    optimizers.AdamW(),
    optimizers.Adafactor(name="adafactor"),
    optimizers.Lamb(name="lamb"),
    optimizers.Lion(name="lion"),
    optimizers.Muon(name="muon"),
    optimizers.Muon(name="muon", scale="original"),
    optimizers.ScheduleFreeAdamW(name="schedule_free_adamw"),
    optimizers.AdamW8bit(name="adamw_8bit"),
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_every_open_rate_is_chosen_with_a_reason(section: optimizers.AnyOptimizer) -> None:
    chosen = learning_rates(section)
    assert set(chosen) == {key for key, value in section if value == "auto"}
    assert all(value > 0 and reason for value, reason in chosen.values())
