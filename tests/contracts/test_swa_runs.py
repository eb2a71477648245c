"""Stochastic weight averaging from the contract: deaths, early stopping and the rate."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from canary import Killed  # noqa: E402
from command import with_layers, write_project  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from made_data import make_images  # noqa: E402
from trainwright.checkpoint.states.eval_weights_state import evaluated_part  # noqa: E402
from trainwright.checkpoint.store import Checkpoints, Loaded  # noqa: E402

pytestmark = pytest.mark.torch


IMAGES = """
data: {kind: images, path: data, classes: [low, middle, high], validation: 0.2,
       augment: {crop: 1}, num_workers: 0}
model: {kind: resnet, width: 8, blocks: [1, 1], norm: batch, stochastic_depth: 0.1}
training: {num_epochs: 6, batch_size: 16, early_stopping: off,
           optimizer: {name: sgd, learning_rate: 0.1},
           average: {kind: swa, start_ratio: 0.5, every_n_steps: 3, batch_norm_rows: 64}}
metric: {target: 0.5}
"""
NETWORK = (
    with_layers("[16, 8]")
    + "training:\n  num_epochs: 8\n  batch_size: 32\n"
    + "  average: {kind: swa, start_ratio: 0.5}\n"
)


def kept(run: Run) -> Mapping[str, Tensor]:
    newest = run.job.checkpoints.newest_valid()
    assert isinstance(newest, Loaded)
    return evaluated_part(newest.parts).tensors


@pytest.fixture
def images(tmp_path: Path) -> Path:
    make_images(tmp_path / "data")
    (tmp_path / "contract.yaml").write_text(IMAGES)
    return tmp_path / "contract.yaml"


@pytest.mark.extended
def test_from_a_contract_with_batch_norm_it_survives_deaths(images: Path) -> None:
    """SWA x batch norm x augmentation x resume, and statistics that fit the mean."""
    whole = train(images, "whole")
    for death in (4, 12, 21):
        with pytest.raises(Killed):
            train(images, f"cut {death}".replace(" ", "-"), dies_at=death)
        cut = train(images, f"cut-{death}")
        assert cut.ended == whole.ended
        assert bits(cut) == bits(whole)
    evaluated = kept(whole)
    trained = whole.job.model.state_dict()
    moving = [name for name in evaluated if "running" in name or name.endswith("weight")]
    assert moving
    assert all(not torch.equal(evaluated[name], trained[name]) for name in moving)
    counts = {int(evaluated[name]) for name in evaluated if name.endswith("tracked")}
    assert counts == {64 // 16}


def test_early_stopping_may_keep_weights_from_before_the_mean(tmp_path: Path) -> None:
    """SWA x early stopping: the best step has the weights that were evaluated at it."""
    contract = write_project(tmp_path, NETWORK)
    found: set[bool] = set()
    for name, patience, start in (
        ("before", "{patience: 2, min_delta: 10.0, metric: val_loss}", 0.8),
        ("after", "{patience: 7, metric: val_loss}", 0.2),
    ):
        settings = (f"training.early_stopping={patience}", f"training.average.start_ratio={start}")
        run = train(contract, name, *settings)
        best = Checkpoints(run.folder.checkpoints, 3).best_valid()
        assert isinstance(best, Loaded)
        mean = run.job.state["mean"]
        taken = {step for step in mean._mean._steps if step <= best.step}
        same = all(
            torch.equal(value, best.parts["model"].tensors[name])
            for name, value in evaluated_part(best.parts).tensors.items()
        )
        assert same is (len(taken) <= 1)
        found.add(same)
    assert found == {True, False}


@pytest.mark.extended
def test_the_rate_of_the_contract_is_set_from_the_start_on(tmp_path: Path) -> None:
    contract = write_project(tmp_path, NETWORK)
    rates = {}
    for name, rate in (
        ("schedule", "schedule"),
        ("constant", "{ratio: 0.3, anneal_ratio: 0.0}"),
        ("cyclic", "{kind: cyclic, high_ratio: 1.0, low_ratio: 0.5}"),
    ):
        run = train(
            contract,
            name,
            "training.early_stopping=off",
            "training.optimizer.learning_rate=0.01",
            f"training.average.learning_rate={rate}",
        )
        rates[name] = run.signals["learning_rate"]
    half, total = len(rates["schedule"]) // 2, len(rates["schedule"])
    assert rates["constant"][:half] == rates["cyclic"][:half] == rates["schedule"][:half]
    assert rates["constant"][half:] == pytest.approx([0.003] * (total - half))
    assert rates["schedule"][-1] == pytest.approx(0.0001)
    lows = [
        step + 1 for step in range(half, total) if rates["cyclic"][step] == pytest.approx(0.005)
    ]
    assert lows == [total * epoch // 8 for epoch in (5, 6, 7, 8)]
