"""Choices of `training` that change the step, from the contract to the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors.torch import load_file  # noqa: E402

from command import NETWORK, events_of_one, project_in, train_one  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    yield from project_in(tmp_path, NETWORK)


def signals() -> list[dict[str, float]]:
    lines = Path("runs/one/signals.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def parts() -> set[str]:
    (folder, *_) = sorted(Path("runs/one/checkpoints").glob("step-*"))
    return {path.stem for path in folder.iterdir()}


@pytest.mark.parametrize(
    "settings",
    [
        ("training.gradient_clipping={kind: autoclip}", "training.mixed_precision=fp16"),
        pytest.param(
            ("training.gradient_clipping={kind: zclip, warmup_steps: 5}",),
            marks=pytest.mark.extended,
        ),
        ("training.gradient_clipping={kind: value, max_value: 0.01}",),
        pytest.param(("training.mixed_precision=tf32",), marks=pytest.mark.extended),
    ],
    ids=["autoclip, fp16", "zclip", "value", "tf32"],
)
def test_a_network_trains_with_it(settings: tuple[str, ...], project: Path) -> None:
    ran = train_one(*settings)
    assert ran.code in (0, 3), ran.err
    assert len(signals()) > 4
    if "value" in settings[0] or "autoclip" in settings[0]:
        assert {line["clipped"] for line in signals()} >= {1}
    assert ("scaler" in parts()) == ("training.mixed_precision=fp16" in settings)
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("training.stop.max_steps=5", "all 5 steps"),
        ("training.stop.target_reached=0.5", "reached the target 0.5"),
        (
            "training.stop.gradient_norm_below=1000",
            "the gradient norm has been below 1000 for 10 steps",
        ),
        ("training.stop.loss_plateau={steps: 3, min_gain: 0.9}", "the training loss is on a"),
    ],
)
def test_a_stop_rule_of_the_contract_ends_the_run(setting: str, reason: str, project: Path) -> None:
    ran = train_one(setting)
    assert ran.code in (0, 3), ran.err
    (ended,) = events_of_one("ended")
    assert reason in ended["reason"]
    assert ended["step"] < 4 * 7


@pytest.mark.extended
@pytest.mark.parametrize(
    ("target", "kind"), [("0.9999", "finished"), ("0.5", "early")], ids=["not reached", "reached"]
)
def test_without_early_stopping_the_target_is_one_of_the_contracts_metric(
    target: str, kind: str, project: Path
) -> None:
    """And not of the validation loss, which is below 1 from the first validation on."""
    ran = train_one("training.early_stopping=off", f"training.stop.target_reached={target}")
    assert ran.code in (0, 3), ran.err
    (ended,) = events_of_one("ended")
    assert ended["kind"] == kind
    if kind == "early":
        assert ended["reason"].startswith("val_roc_auc 0.")


def test_a_target_that_the_metric_can_never_have_is_refused(project: Path) -> None:
    ran = train_one("training.early_stopping=off", "training.stop.target_reached=95")
    assert ran.code == 2
    assert "roc_auc can never be 95" in ran.err
    assert "did you mean 0.95?" in ran.err


def test_the_plan_counts_the_parameters_that_are_trained(project: Path) -> None:
    ran = train_one("training.num_epochs=1")
    assert ran.code in (0, 3), ran.err
    planned = json.loads(Path("runs/one/plan.json").read_text())["estimate"]["parameters"]
    weights = load_file(Path("runs/one/bundle/network.safetensors"))
    assert planned == sum(weight.numel() for weight in weights.values())
    assert f"{planned:,} parameters" in ran.err
