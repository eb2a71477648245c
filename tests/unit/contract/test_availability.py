from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.rules.all_rules import unavailable
from trainwright.core.errors import ContractMistake


def not_available(folder: Path, *overrides: str) -> dict[str, str]:
    path = folder / "c.yaml"
    path.write_text("data: {path: rows.csv}\nmodel: {kind: mlp}\n")
    document = read_contract(path, overrides)
    found = unavailable(document.contract)
    assert all(problem.message.startswith("not available in this version: ") for problem in found)
    assert all(problem.fix for problem in found)
    return {problem.path: problem.found for problem in found}


def test_what_this_version_does_is_available(tmp_path: Path) -> None:
    for overrides in (
        ["training.mixed_precision=tf32"],
        ["training.mixed_precision=fp16", "training.gradient_clipping={kind: zclip}"],
        ["training.mixed_precision=bf16", "data.num_workers=0", "distributed.num_gpus=1"],
        ["model.kind=boosting", "task=regression"],
        ["model.kind=linear", "distributed.backend=gloo"],
        ["model={architecture: x}"],
        ["model.kind=tabular_resnet", "data.path=/abs/rows.csv"],
        ["distributed={strategy: fsdp, num_gpus: 2}"],
        ["data.path=C:/rows.csv", "tracking.sinks=[tensorboard, wandb]"],
    ):
        assert not_available(tmp_path, *overrides) == {}


def test_what_it_does_not_is_named(tmp_path: Path) -> None:
    found = not_available(tmp_path, "distributed.backend=nccl")
    assert found == {"distributed.backend": "nccl"}


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ("kind: table, path: 'URL'", "path"),
        ("kind: table, train_path: 'URL'", "train_path"),
        ("kind: table, train_path: x, val_path: 'URL'", "val_path"),
        ("kind: table, train_path: x, test_path: 'URL'", "test_path"),
        ("kind: images, path: 'URL'", "path"),
        ("kind: images, path: x, val_path: 'URL'", "val_path"),
        ("kind: images, path: x, test_path: 'URL'", "test_path"),
        ("kind: tokens, path: 'URL'", "path"),
    ],
)
def test_no_path_holds_a_secret(tmp_path: Path, data: str, key: str) -> None:
    written = data.replace("URL", "s3://bucket/x?token=abc")
    model = {"table": "mlp", "images": "resnet", "tokens": "gpt"}[data.split(",")[0].split()[-1]]
    (tmp_path / "c.yaml").write_text(f"data: {{{written}}}\nmodel: {{kind: {model}}}\n")
    with pytest.raises(ContractMistake) as caught:
        read_contract(tmp_path / "c.yaml")
    problems = [problem for problem in caught.value.problems if "***" in problem.found]
    assert [(one.path, one.found) for one in problems] == [(f"data.{key}", "s3://***")]
