from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake, Problem
from trainwright.data.columns.target_column import TargetFacts
from trainwright.data.read_table import DataFacts
from trainwright.data.sources.source_file import FileVersion
from trainwright.planner.plan import Plan, plan
from trainwright.planner.plan_facts import DeviceFacts

TABLE = "data: {path: rows.csv}\nmodel: {kind: mlp}\n"
TEXT = "data: {kind: tokens, path: a.txt}\nmodel: {kind: gpt, context: 96}\n"


def problems(folder: Path, training: str, head: str = TABLE) -> Sequence[Problem]:
    path = folder / "c.yaml"
    path.write_text(f"{head}training: {training}\n")
    try:
        read_contract(path)
    except ContractMistake as mistake:
        return mistake.problems
    return ()


@pytest.mark.parametrize(
    ("training", "path"),
    [
        ("{ramps: {batch: {start: 8}}}", ""),
        ("{ramps: {batch: {start: 8}}, effective_batch_size: 64}", ""),
        ("{ramps: {batch: {start: 64}}, effective_batch_size: 64}", "training.ramps.batch.start"),
        ("{ramps: {batch: {start: 8, ratio: 0.2, samples: 9}}}", "training.ramps.batch.samples"),
        ("{ramps: {batch: {start: 0}}}", "training.ramps.batch.start"),
        ("{ramps: {batch: {start: 8, ratio: 0.0}}}", "training.ramps.batch.ratio"),
        ("{ramps: {batch: {}}}", "training.ramps.batch.start"),
        ("{ramps: {sequence: {start: 8}}}", "training.ramps.sequence"),
        ("{stop: {max_tokens: 100}}", "training.stop.max_tokens"),
        ("{stop: {max_samples: 100}}", ""),
        ("{stop: {max_samples: 100, schedule_spans: limits}}", ""),
        ("{stop: {schedule_spans: limits}}", "training.stop.schedule_spans"),
        ("{average: {kind: swa}}", ""),
        (
            "{average: {kind: swa, start_ratio: 0.5, start_epoch: 3}}",
            "training.average.start_epoch",
        ),
        (
            "{average: {kind: swa, every_n_steps: 1, learning_rate: {kind: cyclic}}}",
            "training.average.every_n_steps",
        ),
        (
            "{average: {kind: swa, learning_rate: {ratio: 0.0}}}",
            "training.average.learning_rate.ratio",
        ),
        ("{average: {decay: 0.9}}", "training.average.kind"),
    ],
)
def test_of_a_table(tmp_path: Path, training: str, path: str) -> None:
    assert [problem.path for problem in problems(tmp_path, training)] == ([path] if path else [])


@pytest.mark.parametrize(
    ("training", "path", "fix"),
    [
        ("{ramps: {sequence: {start: 8}}}", "", ""),
        ("{ramps: {sequence: {start: 10}}}", "training.ramps.sequence.start", "change it to 8"),
        ("{ramps: {sequence: {start: 96}}}", "training.ramps.sequence.start", "change it to 48"),
        (
            "{ramps: {sequence: {start: 8, samples: 3, ratio: 0.1}}}",
            "training.ramps.sequence.samples",
            "remove one",
        ),
        ("{stop: {max_tokens: 100}}", "", ""),
    ],
)
def test_of_a_text(tmp_path: Path, training: str, path: str, fix: str) -> None:
    found = problems(tmp_path, training, TEXT)
    assert [(problem.path, problem.fix) for problem in found] == ([(path, fix)] if path else [])


def planned(folder: Path, training: str) -> Plan:
    """Of 20,000 rows."""
    path = folder / "c.yaml"
    head = "data: {path: rows.csv, target: y}\nmodel: {kind: mlp}\n"
    path.write_text(f"{head}training: {training}\n")
    target = TargetFacts("numbers", {}, 500, 0)
    file = FileVersion("rows.csv", "0" * 64, 1000, 20_000)
    facts = DataFacts(20_000, (), target, (file,), frozenset(), {"train": 20_000})
    return plan(read_contract(path), facts, DeviceFacts())


def problems_of_plan(folder: Path, training: str) -> Sequence[Problem]:
    try:
        planned(folder, training)
    except ContractMistake as mistake:
        return mistake.problems
    return ()


@pytest.mark.parametrize(
    ("tracking", "right"),
    [
        ("{}", True),
        ("{windows: {noise_scale: 5}}", False),
        ("{windows: off}", True),
        ("{windows: {noise_scale: 5}}\n# accumulation: 2", True),
    ],
)
def test_the_noise_scale_needs_two_micro_batches(
    tmp_path: Path, tracking: str, right: bool
) -> None:
    accumulation = 2 if "accumulation" in tracking else "auto"
    training = f"{{gradient_accumulation_steps: {accumulation}}}\ntracking: {tracking}"
    found = [problem.path for problem in problems_of_plan(tmp_path, training)]
    assert found == ([] if right else ["tracking.windows.noise_scale"])


@pytest.mark.parametrize(
    ("ramp", "path"),
    [
        ("start: 200", ""),
        ("start: 256", "training.ramps.batch.start"),
        ("start: 8, samples: 140000", ""),
        ("start: 8, samples: 140001", "training.ramps.batch.samples"),
    ],
)
def test_what_only_the_data_shows(tmp_path: Path, ramp: str, path: str) -> None:
    """The effective batch is decided as 256; 70% of 20,000 rows are trained on, ten times."""
    training = f"{{num_epochs: 10, ramps: {{batch: {{{ramp}}}}}}}"
    if not path:
        made = planned(tmp_path, training)
        assert made.estimate.steps > 10 * made.estimate.steps_per_epoch
        return
    assert [problem.path for problem in problems_of_plan(tmp_path, training)] == [path]


@pytest.mark.parametrize(
    ("average", "stop", "steps"),
    [
        ("start_ratio: 0.75", "", 0),
        ("start_ratio: 0.95", "", 550),
        ("start_epoch: 9", "", 550),
        ("start_epoch: 9, every_n_steps: 20", "", 0),
        ("start_ratio: 0.0", "max_steps: 110", 0),
        ("start_ratio: 0.0", "max_steps: 110, schedule_spans: limits", 0),
        ("start_ratio: 0.0", "max_steps: 80, schedule_spans: limits", 80),
        ("start_ratio: 0.0", "max_samples: 20224, schedule_spans: limits", 80),
    ],
)
def test_a_mean_has_two_to_take(tmp_path: Path, average: str, stop: str, steps: int) -> None:
    """Ten epochs of 55 steps; 0 steps where it has."""
    training = f"{{num_epochs: 10, average: {{kind: swa, {average}}}, stop: {{{stop}}}}}"
    found = [(problem.path, problem.found) for problem in problems_of_plan(tmp_path, training)]
    assert [path for path, _ in found] == (["training.average.every_n_steps"] if steps else [])
    assert all(f"weights taken 1 time in {steps} steps of 10 epochs" in said for _, said in found)


@pytest.mark.parametrize(
    ("steps", "stop", "right"),
    [
        (550, "", True),
        (551, "", False),
        (100, "max_steps: 99", True),
        (100, "max_steps: 99, schedule_spans: limits", False),
        (100, "max_samples: 25344, schedule_spans: limits", True),
        (101, "max_samples: 25344, schedule_spans: limits", False),
    ],
)
def test_a_warmup_ends_within_the_schedule(
    tmp_path: Path, steps: int, stop: str, right: bool
) -> None:
    """Ten epochs of 55 steps."""
    warmup = f"scheduler: {{warmup_steps: {steps}}}"
    training = f"{{num_epochs: 10, {warmup}, stop: {{{stop}}}}}"
    found = [problem.path for problem in problems_of_plan(tmp_path, training)]
    assert found == ([] if right else ["training.scheduler.warmup_steps"])
