from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainwright.contract.reading import yaml_reader
from trainwright.contract.reading.read_contract import Document, read_contract
from trainwright.contract.rules.all_rules import unavailable
from trainwright.contract.sections.model.pretrained import Pretrained
from trainwright.contract.sections.model.table_networks import Mlp
from trainwright.contract.sections.model.trees import Boosting
from trainwright.core.errors import ContractMistake, Place, Problem

SMALL = "data: {path: rows.csv}\nmodel: {kind: mlp}\n"

PRACTITIONERS = """\
model: {architecture: bert-base-uncased, num_labels: 2}
training:
  num_epochs: 20
  batch_size: 32
  gradient_accumulation_steps: 4
  effective_batch_size: 128
  optimizer: {name: adamw, learning_rate: 2e-5, weight_decay: 0.01, betas: [0.9, 0.999], eps: 1e-8}
  scheduler: {name: cosine_with_warmup, warmup_ratio: 0.1, min_lr_ratio: 0.01}
  early_stopping: {patience: 5, metric: val_f1, mode: max}
  mixed_precision: fp16
  gradient_clipping: 1.0
  checkpointing: {save_every_n_steps: 500, keep_top_k: 3, save_optimizer_state: true}
data: {train_path: s3://my-bucket/train.parquet, val_path: s3://my-bucket/val.parquet, \
num_workers: 4, pin_memory: true, shuffle: true}
distributed: {strategy: ddp, num_gpus: 4, backend: nccl}
"""


def read(folder: Path, text: str, overrides: Sequence[str] = (), name: str = "c.yaml") -> Document:
    path = folder / name
    path.write_text(text)
    return read_contract(path, overrides)


def problems(folder: Path, text: str, overrides: Sequence[str] = ()) -> Sequence[Problem]:
    with pytest.raises(ContractMistake) as caught:
        read(folder, text, overrides)
    assert all(problem.fix and str(problem.place) for problem in caught.value.problems)
    return caught.value.problems


def only(folder: Path, text: str, overrides: Sequence[str] = ()) -> Problem:
    (problem,) = problems(folder, text, overrides)
    return problem


# The practitioners' example


def test_the_example_has_exactly_one_problem(tmp_path: Path) -> None:
    problem = only(tmp_path, PRACTITIONERS)
    assert problem.path == "training.effective_batch_size"
    assert problem.place.line == 6
    assert (problem.found, problem.expected) == ("128", "512")
    for path in ("batch_size 32", "gradient_accumulation_steps 4", "distributed.num_gpus 4"):
        assert path in problem.message
    for way in (
        "effective_batch_size to 512",
        "gradient_accumulation_steps to 1",
        "num_gpus to 1",
        "batch_size to 8",
    ):
        assert way in problem.fix


def test_the_mended_example_reads_as_it_says(tmp_path: Path) -> None:
    mended = PRACTITIONERS.replace("effective_batch_size: 128", "effective_batch_size: 512")
    document = read(tmp_path, mended)
    training = document.contract.training
    assert isinstance(document.contract.model, Pretrained)
    assert training.optimizer.learning_rate == 2e-5
    assert training.optimizer.betas == (0.9, 0.999)
    assert training.mixed_precision == "fp16"
    assert {problem.path for problem in unavailable(document.contract)} == {
        "distributed.backend",
    }


# Files


def test_a_missing_file_a_folder_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(ContractMistake, match="no such contract"):
        read_contract(tmp_path / "nowhere.yaml")
    with pytest.raises(ContractMistake, match="folder"):
        read_contract(tmp_path)
    with pytest.raises(ContractMistake, match="cannot be read"):
        read_contract(Path("a\0b"))
    assert "empty" in only(tmp_path, "").message
    assert "empty" in only(tmp_path, "# nothing yet\n").message
    assert "not a mapping" in only(tmp_path, "- a\n- b\n").message
    assert "not a mapping" in only(tmp_path, "text").message


def test_a_large_file_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def parse(data: bytes, file: str) -> yaml_reader.ParsedYaml:
        sizes.append(len(data))
        return yaml_reader.read_yaml(data, file)

    assert len(SMALL) > 20
    monkeypatch.setattr(yaml_reader, "MAX_BYTES", 20)
    monkeypatch.setattr("trainwright.contract.reading.read_contract.MAX_BYTES", 20)
    monkeypatch.setattr("trainwright.contract.reading.read_contract.read_yaml", parse)
    assert "too large" in only(tmp_path, SMALL).message
    assert sizes == [21]


@pytest.mark.parametrize(
    ("folder", "file", "name"),
    [
        ("income", "contract.yaml", "income"),
        ("income", "night.yaml", "night"),
        ("my data (1)", "contract.yml", "my-data-1"),
        ("..x", "contract.yaml", "x"),
        ("häuser", "contract.yaml", "h-user"),
        ("x", "???.yaml", "run"),
        ("x", "y" * 90 + ".yaml", "y" * 56),
    ],
)
def test_the_name_comes_from_the_path(tmp_path: Path, folder: str, file: str, name: str) -> None:
    (tmp_path / folder).mkdir()
    assert read(tmp_path / folder, SMALL, name=file).contract.name == name


def test_a_written_name_must_be_safe(tmp_path: Path) -> None:
    assert read(tmp_path, f"name: a.b-c_1\n{SMALL}").contract.name == "a.b-c_1"
    for name in ("../x", "a/b", ".hidden", "a b", "", "x" * 60, "a\u2215b"):
        assert only(tmp_path, f'name: "{name}"\n{SMALL}').path == "name"


def test_source_knows_where_things_stand(tmp_path: Path) -> None:
    document = read(tmp_path, SMALL + "training:\n  num_epochs: 3\n", ["training.batch_size=8"])
    source = document.source
    assert source.folder == tmp_path
    assert source.text.startswith(SMALL)
    assert source.place_of("training.num_epochs").line == 4
    assert source.place_of("training.optimizer.eps").line == 3
    assert source.place_of("training.batch_size") == Place("--set training.batch_size=8")
    assert source.place_of("nowhere").line == 1
    assert document.written >= {"data.path", "training.batch_size", "training"}
    assert "" not in document.written


# Shape


def test_missing_sections_are_named_together_with_examples(tmp_path: Path) -> None:
    found = problems(tmp_path, "seed: 1\n")
    assert [problem.path for problem in found] == ["data", "model"]
    assert "path: data.csv" in found[0].fix
    assert "kind: boosting" in found[1].fix


@pytest.mark.parametrize(
    ("line", "path", "expected", "fix"),
    [
        ("nmae: x", "nmae", "name", "did you mean name?"),
        ("batch_size: 3", "batch_size", "data", "did you mean training.batch_size"),
        ("training: {batchsize: 3}", "training.batchsize", "batch_size", "batch_size"),
        ("training: {batch_size: 0}", "training.batch_size", "auto, or a whole number of at", ""),
        ("training: {batch_size: 1.5}", "training.batch_size", "auto, or a whole number", ""),
        ("training: {batch_size: 64.0}", "training.batch_size", "whole number", "write 64"),
        ('training: {batch_size: "64"}', "training.batch_size", "whole", "remove the quotes: 64"),
        ("training: {batch_size: aut}", "training.batch_size", "auto", "did you mean auto?"),
        ("training: {batch_size: [1]}", "training.batch_size", "auto, or a whole number", ""),
        ("training: {batch_size: }", "training.batch_size", "auto, or a whole", "remove the key"),
        (
            "training: {optimizer: {learning_rate: -0.1}}",
            "training.optimizer.learning_rate",
            "auto, or a number above 0",
            "",
        ),
        (
            "training: {optimizer: {betas: [0.9]}}",
            "training.optimizer.betas",
            "a list of 2 items, each a number of at least 0 and below 1",
            "",
        ),
        (
            "training: {optimizer: {betas: [0.9, 1]}}",
            "training.optimizer.betas.1",
            "a number of at least 0 and below 1",
            "",
        ),
        ("training: {optimizer: {name: adamm}}", "training.optimizer.name", "adamw", "adam?"),
        (
            "training: {early_stopping: {patience: 0}}",
            "training.early_stopping.patience",
            "a whole number of at least 1",
            "",
        ),
        ("training: {early_stopping: false}", "training.early_stopping", "off", "write off"),
        ("training: {gradient_clipping: of}", "training.gradient_clipping", "off, or a", "off?"),
        ("training: {scheduler: {name: cosin}}", "training.scheduler.name", "constant", "cosine"),
        (
            "training: {gradient_clipping: {kind: zclp}}",
            "training.gradient_clipping.kind",
            "zclip",
            "did you mean zclip?",
        ),
        (
            "training: {gradient_clipping: {kind: zclip, z: -1}}",
            "training.gradient_clipping.z",
            "a number above 0",
            "",
        ),
        (
            "training: {gradient_clipping: {kind: zclip, zz: 1}}",
            "training.gradient_clipping.zz",
            "decay",
            "",
        ),
        ("training: {guard: {spike: skip}}", "training.guard.spike", "raise, rollback, ignore", ""),
        (
            "training: {scheduler: {warmup_ratio: 1}}",
            "training.scheduler.warmup_ratio",
            "below 1",
            "",
        ),
        (
            "training: {mixed_precision: int8}",
            "training.mixed_precision",
            "one of: auto, fp32, tf32, bf16, fp16, fp8",
            "",
        ),
        ("training: {checkpointing: {save_optimizer_state: yes}}",
         "training.checkpointing.save_optimizer_state", "true or false", "write true or false"),
        ("seed: -1", "seed", "a whole number of at least 0", ""),
        ("seed: true", "seed", "a whole number of at least 0", ""),
        ("metric: {target: basline}", "metric.target", "colours, or a number", "baseline"),
        ("metric: {name: 5}", "metric.name", "text", 'put it in quotes: "5"'),
        ("metric: roc_auc", "metric", "a mapping with keys of: name", ""),
        ("metric: {resamples: 50}", "metric.resamples", "a whole number of at least 100", "100"),
        ("slices: {column: a}", "slices", "a list, each item a mapping", ""),
        ("slices: [{colum: a}]", "slices.0.colum", "column", "did you mean column?"),
        ("task: rgression", "task", "classification", "did you mean regression?"),
        ("budget: {hours: 0}", "budget.hours", "unlimited, or a number above 0", ""),
        ("distributed: {strategy: dpp}", "distributed.strategy", "ddp", "did you mean ddp?"),
    ],
)  # fmt: skip
def test_one_wrong_value_is_one_problem(
    tmp_path: Path, line: str, path: str, expected: str, fix: str
) -> None:
    problem = only(tmp_path, f"{SMALL}{line}\n")
    assert problem.path == path
    assert problem.place.line == 3
    assert expected in problem.expected
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("data", "path", "expected", "fix"),
    [
        ("path: 5", "data.path", "text", 'put it in quotes: "5"'),
        ("path: x, positive: 1", "data.positive", "text", 'put it in quotes: "1"'),
        ("path: x, split: time", "data.split", "time", "write {kind: time}"),
        ("path: x, split: {kind: tiem}", "data.split.kind", "time", "did you mean time?"),
        ("path: x, split: {kind: group}", "data.split.column", "text", "add column"),
        ("path: x, split: {test: 1.5}", "data.split.test", "below 1", ""),
        ("path: x, exclude: id", "data.exclude", "a list", "put it in brackets: [id]"),
        ("path: x, missing_values: [null]", "data.missing_values.0", "text", "quotes"),
        ("path: x, columns: {a: {kind: num}}", "data.columns.a.kind", "numeric", "numeric"),
        ("path: x, columns: {a.b: {kid: 1}}", 'data.columns."a.b".kid', "kind", "kind"),
        ("path: x, columns: {a: {values: {b: 1}}}", "data.columns.a.values.b", "text", "quotes"),
        ("path: x, pin_memory: yes", "data.pin_memory", "true or false", "true or false"),
    ],
)
def test_one_wrong_value_in_data_is_one_problem(
    tmp_path: Path, data: str, path: str, expected: str, fix: str
) -> None:
    problem = only(tmp_path, f"model: {{kind: mlp}}\ndata: {{{data}}}\n")
    assert problem.path == path
    assert problem.place.line == 2
    assert expected in problem.expected
    assert fix in problem.fix


@pytest.mark.parametrize(
    ("model", "path", "fix"),
    [
        ("{kind: mpl}", "model.kind", "did you mean mlp?"),
        ("{kind: 5}", "model.kind", "choose one of them"),
        ("{}", "model.kind", "kind: boosting"),
        ("mlp", "model", "write {kind: mlp}"),
        ("[mlp]", "model", "write"),
        ("{kind: mlp, hidden: []}", "model.hidden", "at least one item"),
        ("{kind: mlp, hidden: abc}", "model.hidden", "write a list of at least one item"),
        ("{kind: mlp, hidden: [0]}", "model.hidden.0", "at least 1"),
        ("{kind: mlp, num_leaves: 3}", "model.num_leaves", "remove"),
        ("{kind: mlp, learning_rate: 3}", "model.learning_rate", "training.optimizer.learning"),
        ("{kind: boosting, num_leafs: 3}", "model.num_leafs", "did you mean num_leaves?"),
        ("{kind: boosting, learning_rate: -1}", "model.learning_rate", "above 0"),
    ],
)
def test_one_wrong_value_in_model_is_one_problem(
    tmp_path: Path, model: str, path: str, fix: str
) -> None:
    problem = only(tmp_path, f"data: {{path: x}}\nmodel: {model}\n")
    assert problem.path == path
    assert problem.place.line == 2
    assert fix in problem.fix


def test_all_problems_of_shape_come_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "nmae: x\ndata:\n  path: 5\n  split: {kind: tiem}\nmodel: {kind: mlp, hidden: [a, 0]}\n"
        "training:\n  batch_size: 0\n  optimizer: {learning_rate: -1}\nseed: x\n"
    )
    assert [(problem.place.line, problem.path) for problem in problems(tmp_path, text)] == [
        (1, "nmae"),
        (3, "data.path"),
        (4, "data.split.kind"),
        (5, "model.hidden.0"),
        (5, "model.hidden.1"),
        (7, "training.batch_size"),
        (8, "training.optimizer.learning_rate"),
        (9, "seed"),
    ]


def test_a_family_without_its_key_is_the_default(tmp_path: Path) -> None:
    text = (
        "data: {path: x, split: {test: 0.3}}\nmodel: {kind: mlp}\n"
        "training: {scheduler: {warmup_ratio: 0.2}}\n"
    )
    contract = read(tmp_path, text).contract
    assert contract.data.split.kind == "auto"
    assert contract.training.scheduler.name == "cosine_with_warmup"


# Overrides


def test_overrides_are_read_as_yaml(tmp_path: Path) -> None:
    document = read(
        tmp_path,
        SMALL + "slices: [{column: a}]\ntraining: {early_stopping: off}\n",
        [
            "training.optimizer.learning_rate=2e-5",
            "training.early_stopping.patience=3",
            "slices.0.floor=0.5",
            "slices.1={where: 'a > 1'}",
            "model.hidden=[8, 4]",
            "data.positive='1'",
            "data.positive=yes",
            "data.columns.a.kind=datetime",
            "data.columns.a.format=%d/%m/%Y",
            'data.columns."b.c=d".kind=text',
            "data.columns.'e f'.kind=text",
            "data.columns.it's.kind=text",
        ],
    )
    contract = document.contract
    assert contract.training.optimizer.learning_rate == 2e-5
    assert contract.training.early_stopping.patience == 3  # type: ignore[union-attr]
    assert [part.floor for part in contract.slices] == [0.5, "none"]
    assert isinstance(contract.model, Mlp)
    assert contract.model.hidden == (8, 4)
    assert contract.data.positive == "yes"
    assert contract.data.columns["a"].format == "%d/%m/%Y"
    assert list(contract.data.columns) == ["a", "b.c=d", "e f", "it's"]
    assert document.notes == ()


def test_wrong_overrides_are_reported_together(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        SMALL + "slices: [{column: a}]\n",
        ["seed", "=3", "a..b=1", "slices.5.floor=1", "slices.x=1", "seed=[", "seed=!!int 3"],
    )
    assert len(found) == 7
    assert all(problem.place.file.startswith("--set ") for problem in found)


def test_a_wrong_value_of_an_override_names_the_override(tmp_path: Path) -> None:
    problem = only(tmp_path, SMALL, ["training.batch_size=0"])
    assert str(problem.place) == "--set training.batch_size=0"
    assert only(tmp_path, SMALL, ["training.batchsize=8"]).fix == "did you mean batch_size?"


def test_another_kind_of_model_takes_the_old_keys_out(tmp_path: Path) -> None:
    text = "data: {path: x}\nmodel: {kind: mlp, hidden: [8]}\ntraining: {batch_size: 8}\n"
    document = read(tmp_path, text, ["model.num_leaves=7", "model.kind=boosting"])
    assert isinstance(document.contract.model, Boosting)
    assert document.contract.model.num_leaves == 7
    assert len(document.notes) == 1
    assert "model.hidden" in document.notes[0]
    assert "training" in document.notes[0]
    assert not document.written & {"model.hidden", "training", "training.batch_size"}


def test_the_same_kind_of_model_keeps_its_keys(tmp_path: Path) -> None:
    text = "data: {path: x}\nmodel: {kind: mlp, hidden: [8]}\n"
    document = read(tmp_path, text, ["model.kind=mlp"])
    assert isinstance(document.contract.model, Mlp)
    assert document.contract.model.hidden == (8,)
    assert document.notes == ()


def test_training_set_beside_boosting_stays_an_error(tmp_path: Path) -> None:
    overrides = ["model.kind=boosting", "training.batch_size=8"]
    assert only(tmp_path, SMALL, overrides).path == "training"
