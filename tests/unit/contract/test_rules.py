from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.core.errors import ContractMistake, Problem


def problems(folder: Path, **sections: str) -> Sequence[Problem]:
    """What is wrong with a small contract in which these sections are written as given."""
    written = {"data": "{path: rows.csv}", "model": "{kind: mlp}"} | sections
    path = folder / "c.yaml"
    path.write_text("".join(f"{name}: {text}\n" for name, text in written.items()))
    found: Sequence[Problem] = ()
    try:
        read_contract(path)
    except ContractMistake as mistake:
        found = mistake.problems
    assert all(problem.fix and problem.place.line for problem in found)
    return found


def paths(folder: Path, **sections: str) -> list[str]:
    return [problem.path for problem in problems(folder, **sections)]


def test_the_small_contract_itself_is_right(tmp_path: Path) -> None:
    assert paths(tmp_path) == []


def test_a_transform_of_the_target_is_refused(tmp_path: Path) -> None:
    data = "{path: rows.csv, target: y, columns: {y: {features: {numeric: quantile}}}}"
    (problem,) = problems(tmp_path, data=data)
    assert problem.path == "data.columns.y.features.numeric"
    assert problem.found == "quantile"
    other = "{path: rows.csv, target: y, columns: {x: {features: {numeric: quantile}}}}"
    assert paths(tmp_path, data=other) == []


@pytest.mark.parametrize(
    ("training", "gpus", "right"),
    [
        ("{batch_size: 32, gradient_accumulation_steps: 4, effective_batch_size: 128}", "1", True),
        ("{batch_size: 32, gradient_accumulation_steps: 4, effective_batch_size: 128}", "auto", 1),
        ("{batch_size: 32, gradient_accumulation_steps: 4, effective_batch_size: 512}", "4", True),
        ("{batch_size: 32, gradient_accumulation_steps: 4, effective_batch_size: 128}", "4", False),
        ("{batch_size: 32, gradient_accumulation_steps: 4}", "4", True),
        ("{batch_size: 32, effective_batch_size: 96}", "1", True),
        ("{batch_size: 32, effective_batch_size: 100}", "1", False),
        ("{batch_size: 128, effective_batch_size: 64}", "1", False),
        ("{gradient_accumulation_steps: 3, effective_batch_size: 96}", "2", True),
        ("{gradient_accumulation_steps: 3, effective_batch_size: 100}", "1", False),
        ("{effective_batch_size: 100}", "3", False),
    ],
)
def test_batch_arithmetic(tmp_path: Path, training: str, gpus: str, right: bool) -> None:
    ranks = f"{{strategy: {'single' if gpus in ('1', 'auto') else 'ddp'}, num_gpus: {gpus}}}"
    found = paths(tmp_path, training=training, distributed=ranks)
    assert found == ([] if right else ["training.effective_batch_size"])


def test_only_ways_that_mend_are_named(tmp_path: Path) -> None:
    training = "{batch_size: 30, gradient_accumulation_steps: 7, effective_batch_size: 128}"
    (problem,) = problems(tmp_path, training=training)
    assert problem.fix == "change effective_batch_size to 210"


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("{path: a, train_path: b}", ["data.train_path"]),
        ("{target: y}", ["data"]),
        ("{path: a, val_path: b}", ["data.val_path"]),
        ("{path: a, val_path: b, test_path: c}", ["data.val_path", "data.test_path"]),
        ("{train_path: a}", []),
        ("{train_path: a, val_path: b, test_path: c}", []),
        ("{train_path: a, val_path: b, split: {validation: 0.1}}", ["data.split.validation"]),
        ("{train_path: a, val_path: b, split: {test: 0.1}}", []),
        ("{train_path: a, test_path: b, split: {test: 0.1}}", ["data.split.test"]),
        ("{train_path: a, val_path: b, test_path: c, split: {kind: random}}", ["data.split"]),
        ("{train_path: a, val_path: b, split: {kind: column, column: p}}", ["data.split"]),
        ("{path: a, split: {kind: column, column: p}}", []),
        ("{path: a, split: {validation: 0.5, test: 0.5}}", ["data.split"]),
        ("{path: a, split: {validation: 0.5, test: 0.4}}", []),
        ("{path: a, split: {validation: 0}}", ["data.split.validation"]),
        ("{path: a, split: {test: 0}}", ["data.split.test"]),
        ("{path: a, target: y, exclude: [x, y]}", ["data.exclude"]),
        ("{path: a, target: y, columns: {y: {kind: ignored}}}", ["data.columns.y.kind"]),
        ("{path: a, target: y, split: {kind: group, column: y}}", ["data.split.column"]),
        ("{path: a, target: y, split: {kind: time, column: y}}", ["data.split.column"]),
        ("{path: a, columns: {x: {kind: numeric, format: '%Y'}}}", ["data.columns.x.format"]),
        ("{path: a, columns: {x: {format: '%Y'}}}", []),
        ("{path: a, features: {impute: none}}", ["data.features.impute"]),
        (
            "{path: a, columns: {x: {features: {impute: none}}}}",
            ["data.columns.x.features.impute"],
        ),
        (
            "{path: a, columns: {x: {kind: categorical, features: {numeric: log}}}}",
            ["data.columns.x.features.numeric"],
        ),
        (
            "{path: a, features: {history: {time: t, columns: [v], lags: [1]}}}",
            ["data.features.history.time"],
        ),
        (
            "{path: a, split: {kind: time, column: t}, features: {history: {time: t, "
            "columns: [v]}}}",
            ["data.features.history"],
        ),
        (
            "{path: a, split: {kind: time, column: t}, features: {history: {time: t, "
            "columns: [v], lags: [24, 1], horizon: 24}}}",
            ["data.features.history.lags.1"],
        ),
    ],
)
def test_rules_of_data(tmp_path: Path, data: str, found: list[str]) -> None:
    assert paths(tmp_path, data=data) == found


def test_trees_may_read_missing_numbers(tmp_path: Path) -> None:
    data = "{path: a, features: {impute: none}}"
    assert paths(tmp_path, data=data, model="{kind: boosting}") == []


@pytest.mark.parametrize(
    ("training", "found"),
    [
        ("{checkpointing: {save_every_minutes: 5, on_failure: continue}, seeds: 2}", ""),
        ("{checkpointing: {expected_hours_between_failures: 6}}", ""),
        (
            "{checkpointing: {save_every_minutes: 5, keep_top_k: 1}}",
            "training.checkpointing.keep_top_k",
        ),
    ],
)
def test_trees_are_kept_by_the_clock(tmp_path: Path, training: str, found: str) -> None:
    seen = problems(tmp_path, model="{kind: boosting}", training=training)
    assert [problem.found for problem in seen] == ([found] if found else [])
    assert problems(tmp_path, model="{kind: linear}", training=training)


@pytest.mark.parametrize("kind", ["linear", "boosting"])
def test_a_training_section_without_keys_says_nothing(tmp_path: Path, kind: str) -> None:
    assert paths(tmp_path, model=f"{{kind: {kind}}}", training="{}") == []


@pytest.mark.parametrize("kind", ["boosting", "linear"])
def test_training_has_no_effect_without_a_network(tmp_path: Path, kind: str) -> None:
    training = "{batch_size: 8, optimizer: {eps: 1e-7}}"
    (problem,) = problems(tmp_path, model=f"{{kind: {kind}}}", training=training)
    assert problem.path == "training"
    assert problem.found == "training.batch_size, training.optimizer"
    assert "model.kind" in problem.message + problem.expected
    assert paths(tmp_path, model=f"{{kind: {kind}}}") == []


@pytest.mark.parametrize(
    ("metric", "task", "found", "fix"),
    [
        ("{name: roc_auc}", "classification", [], ""),
        ("{name: roc_auc}", "auto", [], ""),
        ("{name: roc_au}", "auto", ["metric.name"], "did you mean roc_auc?"),
        ("{name: rsme}", "regression", ["metric.name"], "did you mean rmse?"),
        ("{name: rmse}", "classification", ["metric.name"], "change task to regression"),
        ("{name: roc_auc}", "regression", ["metric.name"], "change task to classification"),
        ("{name: roc_auc, target: 1.5}", "auto", ["metric.target"], ""),
        ("{name: roc_auc, target: -0.1}", "auto", ["metric.target"], ""),
        ("{name: roc_auc, target: 92}", "auto", ["metric.target"], "did you mean 0.92?"),
        ("{name: roc_auc, target: 1}", "auto", [], ""),
        ("{name: r2, target: -3}", "auto", [], ""),
        ("{name: r2, target: 1.1}", "auto", ["metric.target"], ""),
        ("{name: rmse, target: 50000}", "auto", [], ""),
        ("{name: rmse, target: -1}", "auto", ["metric.target"], ""),
        ("{name: log_loss, target: 2.5}", "auto", [], ""),
        ("{name: brier, target: 1.5}", "auto", [], ""),
        ("{name: brier, target: 2.5}", "auto", ["metric.target"], ""),
        ("{name: roc_auc, target: dummy}", "auto", [], ""),
        ("{name: roc_auc, target: bm25}", "auto", ["metric.target"], "name one of them"),
        ("{name: roc_auc, target: persistence}", "auto", ["metric.target"], "name one of them"),
    ],
)
def test_rules_of_the_metric(
    tmp_path: Path, metric: str, task: str, found: list[str], fix: str
) -> None:
    seen = problems(tmp_path, metric=metric, task=task)
    assert [problem.path for problem in seen] == found
    assert all(fix in problem.fix for problem in seen)


@pytest.mark.parametrize(
    ("stopping", "found", "fix"),
    [
        ("{metric: val_f1, mode: max}", [], ""),
        ("{metric: val_loss, mode: min}", [], ""),
        ("{metric: val_loss, mode: max}", ["mode"], "change mode to min"),
        ("{metric: val_f1, mode: min}", ["mode"], "change mode to max"),
        ("{metric: val_log_loss, mode: max}", ["mode"], "change mode to min"),
        ("{mode: min}", ["mode"], "change mode to max"),
        ("{metric: f1}", ["metric"], "did you mean val_f1?"),
        ("{metric: loss}", ["metric"], "did you mean val_loss?"),
        ("{metric: val_f1_macr}", ["metric"], "did you mean val_f1_macro?"),
        ("{metric: train_loss}", ["metric"], "val_"),
        ("{metric: val_rmse}", ["metric"], "choose one of them"),
        ("off", [], ""),
    ],
)
def test_rules_of_early_stopping(tmp_path: Path, stopping: str, found: list[str], fix: str) -> None:
    training = f"{{early_stopping: {stopping}}}"
    seen = problems(tmp_path, metric="{name: roc_auc}", training=training)
    assert [problem.path for problem in seen] == [f"training.early_stopping.{k}" for k in found]
    assert all(fix in problem.fix for problem in seen)


@pytest.mark.parametrize(
    ("slices", "found"),
    [
        ("[{column: a}, {where: 'b > 1', name: old}]", []),
        ("[{floor: 0.5}]", ["slices.0"]),
        ("[{column: a, where: 'b > 1'}]", ["slices.0"]),
        ("[{column: a, name: x}]", ["slices.0.name"]),
        ("[{column: a}, {column: a}]", ["slices.1"]),
        ("[{where: x, name: n}, {where: y, name: n}, {where: z, name: n}]", ["slices.1"]),
        ("[{column: a, metric: acuracy}]", ["slices.0.metric"]),
        ("[{column: a, metric: rmse}]", ["slices.0.metric"]),
        ("[{column: a, floor: 80}]", ["slices.0.floor"]),
        ("[{column: a, metric: log_loss, floor: 3}]", []),
    ],
)
def test_rules_of_slices(tmp_path: Path, slices: str, found: list[str]) -> None:
    assert paths(tmp_path, slices=slices, metric="{name: roc_auc}") == found


def test_a_positive_class_needs_classes(tmp_path: Path) -> None:
    data = "{path: a, positive: 'yes'}"
    assert paths(tmp_path, data=data, task="regression") == ["data.positive"]
    assert paths(tmp_path, data=data, task="classification") == []


def test_a_limit_on_cost_needs_a_price(tmp_path: Path) -> None:
    assert paths(tmp_path, budget="{cost: 10}") == ["budget.cost"]
    assert paths(tmp_path, budget="{cost: 10, price_per_hour: 2}") == []


def test_all_rules_report_together(tmp_path: Path) -> None:
    found = paths(
        tmp_path,
        data="{target: y, exclude: [y]}",
        metric="{name: acc, target: 3}",
        budget="{cost: 1}",
        training="{batch_size: 3, effective_batch_size: 4}",
    )
    assert sorted(found) == [
        "budget.cost",
        "data",
        "data.exclude",
        "metric.name",
        "training.effective_batch_size",
    ]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("vocabulary: tokenizer", ["data.tokenizer"]),
        ("vocabulary: tokenizer, tokenizer: a.json", []),
        ("tokenizer: a.json", ["data.tokenizer"]),
        ("vocabulary_size: 300", ["data.vocabulary_size"]),
        ("vocabulary: bpe, vocabulary_size: 300", []),
        ("long_documents: cut", ["data.long_documents"]),
        ("long_documents: cut, windows: packed", []),
        ("windows: packed, num_workers: 2", []),
        ("windows: padded, num_workers: 2, long_documents: cut", []),
        ("windows: padded, padding: {buckets: 8, multiple: 4}", []),
        ("padding: {buckets: 8, multiple: 4}", ["data.padding"]),
        ("windows: packed, padding: {multiple: 4}", ["data.padding"]),
        ("windows: padded, shuffle: false", []),
        ("windows: padded, shuffle: false, padding: {buckets: 8}", ["data.padding.buckets"]),
        ("windows: padded, padding: {buckets: 0}", ["data.padding.buckets"]),
    ],
)
def test_rules_of_tokens(tmp_path: Path, data: str, found: list[str]) -> None:
    text = f"{{kind: tokens, path: a, {data}}}"
    assert paths(tmp_path, data=text, model="{kind: gpt}") == found


@pytest.mark.parametrize("windows", ["packed", "padded"])
def test_attention_within_documents_is_not_inspected(tmp_path: Path, windows: str) -> None:
    text = f"{{kind: tokens, path: a, windows: {windows}}}"
    tracking = "{inspect: {which: [attention]}}"
    found = paths(tmp_path, data=text, model="{kind: gpt}", tracking=tracking)
    assert found == ["tracking.inspect.which"]


@pytest.mark.parametrize(
    ("training", "padding", "found"),
    [
        ("{ramps: {sequence: {start: 16}}}", "{}", ["training.ramps.sequence"]),
        ("{ramps: {batch: {start: 16}}}", "{}", []),
        ("{compute: {compile: 'on'}}", "{}", ["training.compute.compile"]),
        ("{compute: {compile: 'on'}}", "{multiple: 4}", []),
        ("{batch_size: 4}", "{max_tokens: 128}", []),
        ("{batch_size: 4}", "{max_tokens: 127}", ["data.padding.max_tokens"]),
        (
            "{compute: {compile: 'on'}}",
            "{multiple: 4, max_tokens: 999}",
            ["data.padding.max_tokens"],
        ),
        (
            "{memory: {update: in_backward}, gradient_clipping: 'off',"
            " guard: {non_finite: rollback}}",
            "{max_tokens: 999}",
            ["data.padding.max_tokens"],
        ),
    ],
)
def test_padded_batches_have_many_widths(
    tmp_path: Path, training: str, padding: str, found: list[str]
) -> None:
    text = f"{{kind: tokens, path: a, windows: padded, padding: {padding}}}"
    model = "{kind: gpt, context: 128}"
    assert paths(tmp_path, data=text, model=model, training=training) == found


@pytest.mark.parametrize(
    ("data", "training", "path"),
    [
        ("{path: rows.csv, target: y, weight: w}", "{}", "data.weight"),
        ("{path: rows.csv, target: y}", "{refit: true}", "training.refit"),
    ],
)
def test_several_quantiles_have_no_weights_and_no_second_training(
    tmp_path: Path, data: str, training: str, path: str
) -> None:
    sections = {"data": data, "model": "{kind: boosting}"}
    if training != "{}":
        sections["training"] = training
    metric = "{name: pinball, quantiles: [0.1, 0.5, 0.9]}"
    assert paths(tmp_path, metric=metric, **sections) == [path]
    assert paths(tmp_path, **sections) == []
