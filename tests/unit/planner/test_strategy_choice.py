"""The choice of `distributed.strategy: auto`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planned_tables import CPU, document, planned
from trainwright.contract.rules.distributed_rules import RankStrategy, possible_strategies
from trainwright.core.errors import ContractMistake, Problem
from trainwright.distributed.link import Link
from trainwright.model.input_shape import TableShape
from trainwright.planner.choose_strategy import Candidates, RankSpeeds, choose_strategy
from trainwright.planner.plan import Plan
from trainwright.planner.resolve.rank_choices import STRATEGY, take_strategy

SHAPE = TableShape(4, (9,), 2)
RANKS = 8
ROW_SECONDS = 1e-4
NETWORK = ("model.hidden=[512,512]", "training.batch_size=8")
FAST, SLOW = Link(RANKS, 1e-6, 1e9), Link(RANKS, 1e-6, 1e7)


def candidates_in(folder: Path, memory_bytes: int) -> Candidates:
    """Plans for devices of so much memory, or why there is none."""
    device = replace(CPU, memory_bytes=memory_bytes)
    made: dict[RankStrategy, Plan | ContractMistake] = {}
    for name, ranks in (("single", 1), ("ddp", RANKS), ("fsdp", RANKS)):
        steps = RANKS // ranks
        over = (f"distributed.strategy={name}", f"distributed.num_gpus={ranks}")
        own = f"training.gradient_accumulation_steps={steps}"
        try:
            made[name] = planned(folder, *NETWORK, *over, own, device=device)
        except ContractMistake as mistake:
            made[name] = mistake
    return made


def needed(candidates: Candidates, name: RankStrategy) -> int:
    plan = candidates[name]
    assert isinstance(plan, Plan)
    assert plan.memory != "unknown"
    return plan.memory.total


def never() -> RankSpeeds:
    raise AssertionError("memory has decided")


@pytest.mark.torch
def test_copies_where_memory_is_ample_and_the_link_fast(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ample = candidates_in(tmp_path, 2**34)
    choice = choose_strategy(ample, SHAPE, lambda: RankSpeeds(ROW_SECONDS, FAST))
    assert (choice.path, choice.value) == (STRATEGY, "ddp")
    # 64 rows on one device, 8 on each of eight, and 2 x 7/8 of the gradient.
    assert choice.measured["seconds"]["single"] == {"seconds": 64 * ROW_SECONDS, "exchange": 0.0}
    assert "on 8 devices a step takes 6.4 ms with single, " in choice.reason


@pytest.mark.torch
def test_one_process_where_the_exchange_would_take_longer(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ample = candidates_in(tmp_path, 2**34)
    choice = choose_strategy(ample, SHAPE, lambda: RankSpeeds(ROW_SECONDS, SLOW))
    assert choice.value == "single"
    assert choice.measured["seconds"]["ddp"]["exchange"] > 64 * ROW_SECONDS


@pytest.mark.torch
def test_shards_where_a_device_holds_no_copy(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ample = candidates_in(tmp_path, 2**34)
    between = (needed(ample, "single") + needed(ample, "fsdp")) // 2
    small = candidates_in(tmp_path, round(between / 0.8))
    choice = choose_strategy(small, SHAPE, never)
    assert choice.value == "fsdp"
    assert "a process may use" in choice.reason
    assert "of ddp" in choice.reason


@pytest.mark.torch
def test_a_model_that_fits_into_no_device_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ContractMistake, match="does not fit into the memory"):
        choose_strategy(candidates_in(tmp_path, 2**20), SHAPE, never)


@pytest.mark.parametrize(
    ("setting", "possible"),
    [
        ("training.num_epochs=3", ("single", "ddp", "fsdp")),
        ("training.optimizer.name=adafactor", ("single", "ddp")),
        ("tracking.windows.noise_scale=9", ("single",)),
        ("model={kind: boosting}", ("single",)),
    ],
)
def test_the_model_and_its_training_limit_the_choice(
    tmp_path: Path, setting: str, possible: tuple[str, ...]
) -> None:
    auto = "distributed={strategy: auto, num_gpus: 4}"
    written = document(tmp_path, auto, setting).contract
    assert possible_strategies(written) == possible


def test_one_device_needs_no_choice(tmp_path: Path) -> None:
    made = planned(tmp_path, "distributed.strategy=auto", "model={kind: boosting}")
    assert made.contract.distributed.strategy == "single"
    (choice,) = [choice for choice in made.choices if choice.path == STRATEGY]
    assert choice.reason == "there is one device"


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("boosting", "only networks and XGBoost are trained by several processes"),
        ("xgboost", "its library uses all cores from one process"),
    ],
)
def test_what_a_library_trains_is_trained_by_one_process(
    kind: str, why: str, tmp_path: Path
) -> None:
    auto = "distributed={strategy: auto, num_gpus: 4}"
    made = planned(tmp_path, auto, f"model={{kind: {kind}}}")
    assert (made.contract.distributed.strategy, made.contract.distributed.num_gpus) == ("single", 1)
    (choice,) = [choice for choice in made.choices if choice.path == STRATEGY]
    assert why in choice.reason


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        (("training.batch_size=8",), 4),
        (("training.batch_size=8", "training.gradient_accumulation_steps=2"), 8),
        (("training.batch_size=8", "training.effective_batch_size=64"), "auto"),
    ],
)
def test_one_process_makes_the_steps_of_several(
    tmp_path: Path, sizes: tuple[str, ...], steps: int | str
) -> None:
    auto = "distributed={strategy: auto, num_gpus: 4}"
    written = document(tmp_path, auto, *sizes).contract
    training = take_strategy(written, "single", 4).training
    assert training.gradient_accumulation_steps == steps
    assert take_strategy(written, "ddp", 4).training == written.training


def test_parts_of_a_model_are_asked_for_by_name(tmp_path: Path) -> None:
    with pytest.raises(ContractMistake) as caught:
        document(tmp_path, "distributed={strategy: auto, num_gpus: 4, tensor: 2}")
    problem: Problem = caught.value.problems[0]
    assert (problem.path, problem.fix) == ("distributed.tensor", "change strategy to ddp")
