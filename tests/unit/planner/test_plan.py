from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from made_data import make_images
from planned_tables import CPU, GPU, OLD_GPU, document, facts, planned, problems, several
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.training.scheduler import Ema
from trainwright.contract.sections.training.training import EarlyStopping
from trainwright.data.dispatch import read_data
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import DataFacts, read_table
from trainwright.planner.plan import plan
from trainwright.planner.plan_facts import DeviceFacts

# What is chosen


@pytest.mark.parametrize(
    ("data", "task", "metric", "split"),
    [
        (facts(), "classification", "roc_auc", "stratified"),
        (facts(classes=several(7)), "classification", "f1_macro", "stratified"),
        (facts(classes={}), "regression", "rmse", "random"),
    ],
)
def test_task_metric_and_split(
    tmp_path: Path, data: DataFacts, task: str, metric: str, split: str
) -> None:
    contract = planned(tmp_path, "data.split.test=0.2", data=data).contract
    assert (contract.task, contract.metric.name) == (task, metric)
    assert contract.data.split.kind == split
    assert contract.data.split.test == 0.2  # type: ignore[union-attr]
    assert contract.data.split.validation == 0.15  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("classes", "positive"),
    [
        ({"no": 30, "yes": 10}, "yes"),
        ({"no": 10, "yes": 30}, "yes"),
        ({"False": 10, "True": 30}, "True"),
        ({"0": 10, "1": 30}, "1"),
        ({"1": 30, "2": 10}, "2"),
        ({"benign": 30, "malignant": 10}, "malignant"),
        ({"t": 10, "y": 30}, "t"),
    ],
)
def test_the_positive_class_is_found_by_its_name_before_its_rows(
    tmp_path: Path, classes: dict[str, int], positive: str
) -> None:
    data = facts(classes=classes)
    assert planned(tmp_path, data=data).contract.data.positive == positive
    other = next(name for name in classes if name != positive)
    written = planned(tmp_path, f"data.positive='{other}'", data=data)
    assert written.contract.data.positive == other


@pytest.mark.parametrize(
    ("kind", "numeric", "impute"),
    [
        ("boosting", "none", "none"),
        ("linear", "standard", "median"),
        ("mlp", "quantile", "median"),
        ("tabular_resnet", "quantile", "median"),
        ("ft_transformer", "quantile", "median"),
    ],
)
def test_features_fit_the_model(tmp_path: Path, kind: str, numeric: str, impute: str) -> None:
    features = planned(tmp_path, f"model.kind={kind}").contract.data.features
    assert (features.numeric, features.impute) == (numeric, impute)


def test_what_is_written_stays(tmp_path: Path) -> None:
    written = [
        "task=classification",
        "metric.name=log_loss",
        "data.split={kind: random}",
        "data.features={numeric: none, impute: mean}",
        "training.num_epochs=3",
        "training.batch_size=10",
        "training.mixed_precision=bf16",
        "training.compute={matrix_products: exact, memory_format: contiguous, compile: off}",
        "training.optimizer.learning_rate=0.5",
        "training.checkpointing={save_every_n_steps: 7, rank_by: val_loss, save_every_minutes: 3}",
        "training.early_stopping={metric: val_loss}",
        "training.gradient_accumulation_steps=2",
        "resume={grace_seconds: 60, determinism: run_to_run}",
    ]
    made = planned(tmp_path, *written)
    training = made.contract.training
    assert made.contract.metric.name == "log_loss"
    assert made.contract.data.features.impute == "mean"
    assert (training.num_epochs, training.batch_size) == (3, 10)
    assert training.effective_batch_size == 20
    assert training.mixed_precision == "bf16"
    assert training.optimizer.learning_rate == 0.5
    assert training.checkpointing.save_every_n_steps == 7
    assert training.early_stopping == EarlyStopping(metric="val_loss", mode="min", patience=5)
    assert {choice.path for choice in made.choices} == {
        "metric.target",
        "data.positive",
        "data.num_workers",
        "data.pin_memory",
        "data.reading.rows_in",
        "data.features.categorical",
        "distributed.num_gpus",
        "distributed.backend",
        "training.effective_batch_size",
        "training.early_stopping.patience",
        "training.early_stopping.mode",
        "training.loss.name",
        "tracking.windows.every_n_steps",
    }


def test_nothing_of_a_network_is_left_open(tmp_path: Path) -> None:
    made = planned(tmp_path, "slices=[{column: job}]")
    contract = made.contract.model_dump(mode="json")
    assert contract["model"].pop("embedding_dim") == "auto"
    assert contract["compute"].pop("threads") == "auto"  # the machine's, which is no experiment
    assert '"auto"' not in json.dumps(contract)
    assert made.contract.slices[0].metric == "roc_auc"
    assert all(choice.reason for choice in made.choices)


def test_boosting_gets_no_training(tmp_path: Path) -> None:
    made = planned(tmp_path, "model.kind=boosting")
    assert not [choice.path for choice in made.choices if choice.path.startswith("training")]
    assert made.estimate.steps == 0


@pytest.mark.parametrize(
    ("rows", "batch"),
    [
        (20_000, 256),
        (14_286, 256),
        (9_000, 128),
        (2_000, 32),
        (300, 16),
        (10, 16),
    ],
)
def test_batch_size_follows_the_rows(tmp_path: Path, rows: int, batch: int) -> None:
    data = facts(rows, classes={})
    assert planned(tmp_path, data=data).contract.training.batch_size == batch


@pytest.mark.parametrize(
    ("written", "sizes"),
    [
        (["effective_batch_size=512"], (256, 2, 512)),
        (["effective_batch_size=96"], (96, 1, 96)),
        (["effective_batch_size=300"], (150, 2, 300)),
        (["effective_batch_size=509"], (509, 1, 509)),
        (["effective_batch_size=512", "batch_size=32"], (32, 16, 512)),
        (["effective_batch_size=512", "gradient_accumulation_steps=4"], (128, 4, 512)),
        (["batch_size=32", "gradient_accumulation_steps=4"], (32, 4, 128)),
        (["gradient_accumulation_steps=4"], (256, 4, 1024)),
    ],
)
def test_the_three_sizes_agree(
    tmp_path: Path, written: list[str], sizes: tuple[int, int, int]
) -> None:
    training = planned(tmp_path, *(f"training.{text}" for text in written)).contract.training
    assert (
        training.batch_size,
        training.gradient_accumulation_steps,
        training.effective_batch_size,
    ) == sizes


@pytest.mark.parametrize(
    ("rows", "epochs"),
    [(20_000, 73), (2_000_000, 10), (100, 100)],
)
def test_epochs_aim_at_4000_steps(tmp_path: Path, rows: int, epochs: int) -> None:
    made = planned(tmp_path, data=facts(rows, classes={}))
    assert made.contract.training.num_epochs == epochs
    assert made.estimate.steps == epochs * made.estimate.steps_per_epoch


@pytest.mark.parametrize(
    ("overrides", "decay"),
    [
        (["training.num_epochs=5"], 0.98),
        (["training.num_epochs=5", "training.stop.max_steps=100"], 0.9),
        (["training.num_epochs=5", "training.stop.max_steps=3"], 0.5),
        (["training.num_epochs=1000"], 0.999),
        (["training.num_epochs=1000", "training.stop.max_samples=14000"], 0.95),
        (["training.num_epochs=1", "training.ramps.batch={start: 1, ratio: 1.0}"], 0.994949),
    ],
)
def test_a_mean_of_weights_forgets_the_first_ones(
    tmp_path: Path, overrides: list[str], decay: float
) -> None:
    network = ["model.kind=mlp", "training.average.kind=ema", "training.batch_size=70"]
    data = facts(10_000, classes={})
    made = planned(tmp_path, *network, *overrides, data=data)
    assert isinstance(made.contract.training.average, Ema)
    assert made.contract.training.average.decay == pytest.approx(decay)
    (choice,) = [c for c in made.choices if c.path == "training.average.decay"]
    assert "steps" in choice.reason
    written = planned(tmp_path, *network, "training.average.decay=0.7", data=data)
    assert isinstance(written.contract.training.average, Ema)
    assert written.contract.training.average.decay == 0.7


@pytest.mark.parametrize(
    ("limit", "steps"),
    [("max_steps=7", 7), ("max_samples=320", 10), ("max_samples=32000000", 4000)],
)
def test_every_limit_makes_a_plan_shorter(tmp_path: Path, limit: str, steps: int) -> None:
    sizes = ("training.effective_batch_size=32", "training.num_epochs=10")
    made = planned(tmp_path, *sizes, f"training.stop.{limit}", data=facts(18_286))
    assert made.steps == steps


def test_checkpoints_are_saved_at_validations(tmp_path: Path) -> None:
    made = planned(tmp_path, "training.validate_every_n_epochs=3")
    every = made.contract.training.checkpointing.save_every_n_steps
    assert every == 3 * made.estimate.steps_per_epoch


@pytest.mark.parametrize(
    ("device", "precision", "pinned"),
    [(CPU, "fp32", False), (GPU, "bf16", True), (OLD_GPU, "fp32", True)],
)
def test_the_device_decides_formats(
    tmp_path: Path, device: DeviceFacts, precision: str, pinned: bool
) -> None:
    contract = planned(tmp_path, device=device).contract
    assert contract.training.mixed_precision == precision
    assert contract.data.pin_memory is pinned
    assert contract.data.num_workers == 0


@pytest.mark.parametrize(
    ("metric", "mode"), [("log_loss", "min"), ("roc_auc", "max"), ("auto", "max")]
)
def test_early_stopping_watches_the_metric(tmp_path: Path, metric: str, mode: str) -> None:
    stopping = planned(tmp_path, f"metric.name={metric}").contract.training.early_stopping
    assert isinstance(stopping, EarlyStopping)
    assert stopping.mode == mode
    assert stopping.metric == ("val_roc_auc" if metric == "auto" else f"val_{metric}")


@pytest.mark.parametrize(
    ("settings", "patience"),
    [
        ((), 33),  # of 100 epochs
        (("training.num_epochs=9",), 5),
        (("training.validate_every_n_epochs=2",), 16),
        (("training.early_stopping={patience: 4}",), 4),
    ],
)
def test_images_are_trained_on_while_the_rate_falls(
    tmp_path: Path, settings: Sequence[str], patience: int
) -> None:
    make_images(tmp_path / "d")
    path = tmp_path / "c.yaml"
    path.write_text("data: {kind: images, path: d}\nmodel: {kind: resnet, width: 8}\n")
    document = read_contract(path, settings)
    facts = read_data(document.contract.data, tmp_path).facts
    stopping = plan(document, facts, CPU).contract.training.early_stopping
    assert isinstance(stopping, EarlyStopping)
    assert stopping.patience == patience


def test_early_stopping_that_is_off_stays_off(tmp_path: Path) -> None:
    contract = planned(tmp_path, "training.early_stopping=off").contract
    assert contract.training.early_stopping == "off"


# What it takes


def test_the_estimate_counts_rows_and_bytes(tmp_path: Path) -> None:
    made = planned(tmp_path, data=facts(1000, classes={}))
    assert made.estimate.train_rows == 700
    # age with its indicator, the day, the job's code, the target
    assert made.estimate.memory_bytes == 1000 * (4 + 4 + 4 + 8 + 8)


def test_given_parts_leave_their_rows_to_training(tmp_path: Path) -> None:
    paths = ["data={train_path: a, val_path: b, target: y}"]
    data = facts(1000, classes={}, given={"validation": 50})
    assert planned(tmp_path, *paths, data=data).estimate.train_rows == 850


def test_a_stratified_split_is_counted_by_class(tmp_path: Path) -> None:
    data = facts(13, classes={"a": 10, "b": 3})
    # 10 rows: 2 (of 1.5) and 2; 3 rows: 1 and 1
    assert planned(tmp_path, data=data).estimate.train_rows == 6 + 1


# The hash


def test_the_hash_is_of_contract_and_data(tmp_path: Path) -> None:
    first = planned(tmp_path)
    assert planned(tmp_path).hash == first.hash
    assert planned(tmp_path, "seed=1").hash != first.hash
    assert planned(tmp_path, data=facts(sha256="1" * 64)).hash != first.hash
    # Spelling out what the plan chooses anyway is the same experiment.
    assert planned(tmp_path, "task=classification").hash == first.hash


def test_a_plan_is_json(tmp_path: Path) -> None:
    made = planned(tmp_path, "slices=[{column: job, floor: 0.5}]")
    read = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert read["hash"] == made.hash
    assert read["contract"]["task"] == "classification"
    assert {"path": "metric.name", "value": "roc_auc", "reason": "there are two classes"} in read[
        "choices"
    ]


# What only the data shows


@pytest.mark.parametrize(
    ("override", "data", "path", "message", "fix"),
    [
        ("task=regression", facts(), "task", "holds words", "classification"),
        ("task=classification", facts(classes={}), "task", "is a number", "categorical"),
        ("metric.name=rmse", facts(), "metric.name", "metric of regression", "change task"),
        ("metric.name=f1", facts(classes=several(77)), "metric.name", "has 77", "f1_macro"),
        ("metric.name=recall", facts(classes=several(3)), "metric.name", "has 3", "f1_macro"),
        ("metric.target=2", facts(), "metric.target", "never be 2", ""),
        ("metric.target=-1", facts(classes={}), "metric.target", "never be -1", ""),
        (
            "training.early_stopping.metric=val_f1",
            facts(classes=several(3)),
            "training.early_stopping.metric",
            "has 3",
            "f1_macro",
        ),
        (
            "training.early_stopping.mode=min",
            facts(),
            "training.early_stopping.mode",
            "contradicts",
            "max",
        ),
        ("data.positive=Yes", facts(), "data.positive", "no row has", "did you mean yes?"),
        ("data.positive=c00", facts(classes=several(3)), "data.positive", "has 3", "remove"),
        ("data.positive=x", facts(classes={}), "data.positive", "no meaning", "remove"),
        ("data.exclude=[aeg]", facts(), "data.exclude.0", "no column 'aeg'", "did you mean age?"),
        ("data.columns.jop.kind=numeric", facts(), "data.columns.jop", "no column", "job?"),
        ("data.split={kind: group, column: ids}", facts(), "data.split.column", "no col", "id?"),
        ("slices=[{column: jobs}]", facts(), "slices.0.column", "no column", "job?"),
        (
            "slices=[{column: job, metric: f1}]",
            facts(classes=several(4)),
            "slices.0.metric",
            "has 4",
            "f1_macro",
        ),
        ("slices=[{column: job, floor: 7}]", facts(), "slices.0.floor", "never be 7", "0.07"),
    ],
)
def test_what_only_the_data_shows(
    tmp_path: Path, override: str, data: DataFacts, path: str, message: str, fix: str
) -> None:
    (problem,) = problems(tmp_path, override, data=data)
    assert problem.path == path
    assert message in problem.message
    assert fix in problem.fix
    assert problem.place.file.startswith("--set ")


def test_a_slice_by_the_target_is_allowed(tmp_path: Path) -> None:
    planned(tmp_path, "slices=[{column: y}]")


def test_few_different_numbers_may_be_predicted_as_numbers(tmp_path: Path) -> None:
    grades = facts(classes={"3": 10, "4.5": 200, "-1": 30})
    contract = planned(tmp_path, "task=regression", data=grades).contract
    assert contract.metric.name == "rmse"
    assert contract.data.split.kind == "random"


def test_problems_with_the_data_come_together_with_their_places(tmp_path: Path) -> None:
    found = problems(
        tmp_path, "data.exclude=[nope]", "metric.name=f1", data=facts(classes=several(3))
    )
    assert [problem.path for problem in found] == ["data.exclude.0", "metric.name"]


def test_facts_of_a_file_are_planned(tmp_path: Path) -> None:
    lines = [f"{at},{'abc'[at % 3]},{'yes' if at % 3 else 'no'}" for at in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,job,y", *lines]) + "\n")
    read = document(tmp_path)
    raw = read_table(read.contract.data, read.source.folder)
    made = plan(read, raw.facts, CPU)
    assert made.contract.data.positive == "yes"
    assert made.contract.training.batch_size == 16
    assert made.estimate.train_rows == 42


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("rows", [60, 61, 77])
@pytest.mark.parametrize("words", [(), ("data.split={kind: auto, folds: 4}",)])
def test_training_rows_are_those_that_the_split_leaves(
    tmp_path: Path, task: str, rows: int, words: tuple[str, ...]
) -> None:
    target = [at % 3 for at in range(rows)] if task == "classification" else range(rows)
    lines = [f"{(at * 7) % 23},{'abc'[at % 3]},{y}" for at, y in enumerate(target)]
    (tmp_path / "rows.csv").write_text("\n".join(["age,job,y", *lines]) + "\n")
    read = document(tmp_path, *words)
    raw = read_table(read.contract.data, read.source.folder)
    made = plan(read, raw.facts, CPU)
    assert made.contract.task == task
    prepared = prepare_table(raw, made.contract.data, made.contract.task, seed=0)  # type: ignore[arg-type]
    assert len(prepared.train) == made.estimate.train_rows
