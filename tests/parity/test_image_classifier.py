"""Models of images of transformers, trained from a contract: the bits of a plain torch loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from canary import Killed  # noqa: E402
from contract_runs import Run, bits, train  # noqa: E402
from faults.tiers import in_test  # noqa: E402
from made_image_bases import DEVIATION, MEAN, write_image_project  # noqa: E402
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.optim.lr_schedule import build_schedule  # noqa: E402

pytestmark = pytest.mark.torch

RATE, DECAY, ROWS = 0.005, 0.01, 16


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))


def normalised(pixels: np.ndarray) -> Tensor:
    mean, deviation = (255 * torch.tensor(one).view(1, -1, 1, 1) for one in (MEAN, DEVIATION))
    return (torch.from_numpy(pixels).float() - mean) / deviation


def plain_loop(base: Path, run: Run, *, probes: bool) -> tuple[nn.Module, list[float]]:
    """The same training by hand, from the weights that transformers reads itself."""
    torch.manual_seed(run.ready.plan.contract.seed)
    model = transformers.AutoModelForImageClassification.from_pretrained(
        base, num_labels=3, dtype=torch.float32
    )
    model.train()
    if probes:
        model.base_model.requires_grad_(False)
        for norm in model.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.eval()
    trained = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    named = ("cls_token", "position_embeddings", "bias")
    decayed = {name for name, one in trained if one.ndim > 1 and not name.endswith(named)}
    groups = [
        {
            "params": [one for name, one in trained if (name in decayed) == is_in],
            "weight_decay": DECAY if is_in else 0.0,
        }
        for is_in in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, fused=True)
    inputs = ImageInputs.of_kind(run.ready.prepared.train.inputs)
    target = torch.tensor(run.ready.prepared.train.target)
    steps = run.ended.progress.step
    schedule = build_schedule(run.ready.plan.contract.training.scheduler, steps)
    losses, order = [], run.job.feed.order  # type: ignore[attr-defined]
    in_epoch = -(-len(inputs) // ROWS)
    for step in range(steps):
        epoch, place = divmod(step, in_epoch)
        rows = order.at(epoch, place * ROWS, min((place + 1) * ROWS, len(inputs)))
        for group in optimizer.param_groups:
            group["lr"] = RATE * schedule(step)
        optimizer.zero_grad()
        logits = model(normalised(inputs.take(rows).copied(0, len(rows)))).logits
        loss = functional.cross_entropy(logits, target[torch.from_numpy(rows)], reduction="sum")
        loss.backward(torch.full_like(loss, 1 / len(rows)))  # of the sum, as in our step
        optimizer.step()
        losses.append(loss.item() / len(rows))
    return model, losses


@pytest.mark.parametrize("kind", in_test(3, ["vit", "convnext", "resnet"], start=2))
def test_fine_tuning_has_the_bits_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    run = train(write_image_project(tmp_path, kind), "run")
    model, losses = plain_loop(tmp_path / "base", run, probes=False)
    assert run.ended.progress.step == len(losses) > 10
    assert run.signals["loss"] == losses
    ours = run.job.model.state_dict()
    assert ours.keys() == model.state_dict().keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(ours[name], tensor), name


@pytest.mark.parametrize("kind", in_test(2, ["vit", "resnet"]))
def test_a_linear_probe_has_the_bits_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, kind)
    run = train(contract, "run", f"training.freeze={{{kind}: always}}")
    model, losses = plain_loop(tmp_path / "base", run, probes=True)
    assert run.signals["loss"] == losses
    ours = run.job.model.state_dict()
    for name, tensor in model.state_dict().items():
        assert torch.equal(ours[name], tensor), name


@pytest.mark.parametrize("kind", ["vit", "resnet"])
def test_a_cut_changes_no_bit(kind: str, tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, kind)
    settings = (
        "training.checkpointing.save_every_n_steps=2",
        "data.augment.flip=true",
        f"training.freeze={{{kind}: 1}}",
    )
    whole = train(contract, "whole", *settings)
    for death in (1, 7):
        with pytest.raises(Killed):
            train(contract, f"cut-{death}", *settings, dies_at=death)
        assert bits(train(contract, f"cut-{death}", *settings)) == bits(whole)


@pytest.mark.parametrize("kind", in_test(3, ["vit", "convnext", "resnet"]))
def test_recomputed_layers_change_no_bit(kind: str, tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, kind)
    whole = train(contract, "whole", "training.num_epochs=1")
    setting = "training.memory.activation_checkpointing=full"
    again = train(contract, "again", "training.num_epochs=1", setting)
    assert again.signals["loss"] == whole.signals["loss"]
