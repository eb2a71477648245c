"""Models of images of transformers from contract to predictions: what is trained, kept, told and
refused."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from contract_runs import train as fit_only  # noqa: E402
from made_image_bases import (  # noqa: E402
    DEVIATION,
    MEAN,
    SIDE,
    write_coloured,
    write_image_base,
    write_image_project,
)
from trainwright.core.errors import Mistake  # noqa: E402
from trainwright.core.files import (  # noqa: E402
    hash_file,
    read_json,
)
from trainwright.data.base.inputs import ImageInputs  # noqa: E402
from trainwright.model.families import network_family  # noqa: E402
from trainwright.model.input_shape import ImageShape  # noqa: E402
from trainwright.predictor.bundle import read_bundle  # noqa: E402
from trainwright.run.after.evaluate_rows import evaluate_rows  # noqa: E402
from trainwright.run.prepare.prepare_run import (  # noqa: E402
    Ready,
    make_ready,
)
from trainwright.run.request import Request  # noqa: E402
from trainwright.run.run_context import Result  # noqa: E402
from trainwright.run.screen import StageTimes, StreamScreen  # noqa: E402
from trainwright.run.train import train  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("TRAINWRIGHT_CACHE", str(tmp_path / "kept"))


def ready_for(contract: Path, *overrides: str) -> tuple[Ready, str]:
    said = io.StringIO()
    request = Request(contract, overrides, contract.parent / "runs")
    return make_ready(request, StageTimes(), StreamScreen(said)), said.getvalue()


def run(contract: Path, *overrides: str, name: str = "", resume: bool = False) -> Result:
    runs = contract.parent / "runs"
    return train(Request(contract, overrides, runs, name, resume), StreamScreen(io.StringIO()))


def refused(contract: Path, *overrides: str) -> str:
    with pytest.raises(Mistake) as caught:
        run(contract, *overrides)
    assert not (contract.parent / "runs").exists()
    return str(caught.value)


def new_images(count: int = 12) -> np.ndarray:
    draw = np.random.default_rng(5)
    pixels = draw.integers(0, 160, (count, 3, SIDE, SIDE), dtype=np.uint8)
    for row in range(count):
        pixels[row, row % 3] += np.uint8(70)
    return pixels


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["vit", "convnext", "resnet"])
def test_a_contract_trains_it_and_transformers_reads_the_bundle(kind: str, tmp_path: Path) -> None:
    result = run(write_image_project(tmp_path, kind))
    assert list(result.evaluation.baselines) == ["dummy", "linear", "colours"]
    bundle = result.folder.bundle
    assert {one.name for one in bundle.iterdir()} == {
        *("bundle.json", "config.json", "features.json", "model.safetensors", "network.json"),
        *("preprocessor_config.json", "profile.json", "signature.json", "target.json"),
    }
    assert not [one for one in bundle.iterdir() if str(tmp_path) in one.read_text("latin-1")]
    images = new_images()
    ours = read_bundle(bundle).score(ImageInputs.of(images))
    model = transformers.AutoModelForImageClassification.from_pretrained(bundle)
    settings = read_json(bundle / "preprocessor_config.json")
    np.testing.assert_allclose(settings["image_mean"], MEAN, atol=1e-6)
    mean, deviation = (np.array(one).reshape(1, 3, 1, 1) for one in (MEAN, DEVIATION))
    with torch.no_grad():
        scaled = torch.tensor((images / 255 - mean) / deviation, dtype=torch.float32)
        chances = model(scaled).logits.softmax(dim=1).numpy()
    assert model.config.id2label == {0: "blue", 1: "green", 2: "red"}
    np.testing.assert_allclose(ours, chances, atol=1e-5)


@pytest.mark.extended
def test_images_are_predicted_from_files(tmp_path: Path) -> None:
    result = run(write_image_project(tmp_path), "training.num_epochs=8")
    write_coloured(tmp_path / "more", 30, seed=3)
    judged = evaluate_rows(result.folder, str(tmp_path / "more"), ())
    assert judged.evaluation.metrics["accuracy"].value > 0.8


def test_the_record_names_the_base_and_the_plan_counts_it(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    ready, said = ready_for(contract)
    model = ready.plan.contract.model
    assert ready.plan.contract.data.decoding.size == (SIDE, SIDE)  # type: ignore[attr-defined]
    assert f"3 x {SIDE} x {SIDE}" in said
    assert "note" not in said
    base = json.loads(json.dumps(ready.plan.to_json()))["contract"]["model"]["base"]
    assert base["weights"] == hash_file(tmp_path / "base" / "model.safetensors")
    assert base["licence"] == "apache-2.0"
    assert base["image_mean"] == pytest.approx([255 * one for one in MEAN])
    assert str(tmp_path) not in json.dumps(base)
    whole = transformers.AutoModelForImageClassification.from_pretrained(
        tmp_path / "base", num_labels=3
    )
    assert ready.plan.estimate.parameters == sum(one.numel() for one in whole.parameters())
    assert ready.plan.memory != "unknown"
    assert ready.plan.memory.activations > 0
    assert model.block_count == 2


@pytest.mark.parametrize(("kind", "layers"), [("vit", 2), ("convnext", 3), ("resnet", 3)])
def test_every_layer_of_every_stage_is_a_block(kind: str, layers: int, tmp_path: Path) -> None:
    labels = {"label2id": {"record player": 77}, "id2label": {77: "record player"}}
    model = ready_for(write_image_project(tmp_path, kind, **labels))[0].plan.contract.model
    family = network_family(model)
    network = family.build(model, ImageShape((3, SIDE, SIDE), (0.0,) * 3, (1.0,) * 3, 3))
    blocks = list(family.blocks(network))
    assert model.block_count == len(blocks) == layers
    (name,) = {type(one).__name__ for one in blocks}
    assert name.endswith("Layer")
    assert "Conv" not in name.removeprefix("ConvNext")


@pytest.mark.extended
def test_without_a_preprocessor_the_training_images_tell_and_it_is_said(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    (tmp_path / "base" / "preprocessor_config.json").unlink()
    ready, said = ready_for(contract)
    assert "those of the training images" in said
    assert ready.plan.contract.data.decoding.size == (SIDE, SIDE)  # type: ignore[attr-defined]
    built = fit_only(contract, "one", "training.stop.max_steps=1").job.model
    mean = ready.prepared.features.shape_json(3)["mean"]
    np.testing.assert_allclose(built.pixel_mean.flatten(), mean, rtol=1e-6)


@pytest.mark.extended
def test_sizes_of_a_preprocessor_in_every_form(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, "convnext")
    file = tmp_path / "base" / "preprocessor_config.json"
    settings = json.loads(file.read_text())
    for size in (8, [8, 8], {"shortest_edge": 8}, {"height": 8, "width": 8}):
        file.write_text(json.dumps({**settings, "size": size}))
        data = ready_for(contract)[0].plan.contract.data
        assert data.decoding.size == (8, 8), size  # type: ignore[attr-defined]
    file.write_text(json.dumps({**settings, "do_resize": False}))
    assert ready_for(contract, "data.decoding.size=[12, 10]")[0].prepared
    file.write_text(json.dumps({**settings, "image_std": [0.5, 0.0, 0.5]}))
    assert "standardises no image" in refused(contract)


@pytest.mark.extended
def test_a_configuration_alone_and_rates(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    write_image_base(tmp_path / "new", "resnet", weights=False)
    named = ("model.architecture=new", "model.weights=none")
    assert "has no weights" in refused(contract, "model.architecture=new")
    assert run(contract, *named, "training.num_epochs=1").evaluation
    contract.write_text(contract.read_text().split("training:")[0])
    tuned = ready_for(contract)[0].plan.contract.training
    assert (tuned.optimizer.learning_rate, tuned.num_epochs, tuned.batch_size) == (5e-5, 5, 32)
    anew = ready_for(contract, *named)[0].plan.contract.training
    assert anew.optimizer.learning_rate == 5e-4


@pytest.mark.extended
def test_a_frozen_batch_norm_keeps_its_statistics(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path, "resnet")
    probe = fit_only(contract, "probe", "training.freeze={resnet: always}")
    before = transformers.AutoModel.from_pretrained(tmp_path / "base").state_dict()
    after = probe.job.model.state_dict()
    for name, tensor in before.items():
        assert torch.equal(after[f"resnet.{name}"], tensor), name
    staged = fit_only(contract, "staged", "training.freeze={resnet: 1}").job.model.state_dict()
    first = "resnet.embedder.embedder.normalization.running_mean"
    assert not torch.equal(staged[first], before[first.removeprefix("resnet.")])


@pytest.mark.extended
def test_stages_and_rates_by_layer(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    head = "training.freeze={vit.embeddings: always}"
    staged = fit_only(contract, "staged", head, "training.optimizer.layer_decay=0.5")
    peaks = {peak for _, peak in staged.job.knobs[0]._groups}  # type: ignore[attr-defined]
    assert len(peaks) >= 3
    assert max(peaks) == 0.005
    before = transformers.AutoModel.from_pretrained(tmp_path / "base").state_dict()
    for name, tensor in staged.job.model.state_dict().items():
        if name.startswith("vit.embeddings"):
            assert torch.equal(tensor, before[name.removeprefix("vit.")]), name


@pytest.mark.extended
def test_grey_images_serve_a_base_of_colours(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    result = run(contract, "data.decoding.channels=grey", "training.num_epochs=1")
    scores = read_bundle(result.folder.bundle).score(ImageInputs.of(new_images()[:, :1]))
    assert np.isfinite(scores).all()


def test_a_run_goes_on_with_its_own_base_only(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    run(contract, "training.num_epochs=1", name="one")
    file = tmp_path / "base" / "preprocessor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "image_mean": [0.1, 0.1, 0.1]}))
    with pytest.raises(Mistake) as caught:
        run(contract, "training.num_epochs=1", name="one", resume=True)
    assert "another base of its model" in str(caught.value)


def keep_pickle(base: Path) -> None:
    (base / "model.safetensors").rename(base / "pytorch_model.bin")


def without_a_head(base: Path) -> None:
    (base / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_size": 16}))


def with_own_code(base: Path) -> None:
    own = {"model_type": "quux", "auto_map": {"AutoConfig": "own.OwnConfig"}}
    (base / "config.json").write_text(json.dumps(own))
    (base / "own.py").write_text("raise SystemExit('run')")


def of_one_channel(base: Path) -> None:
    config = json.loads((base / "config.json").read_text())
    (base / "config.json").write_text(json.dumps({**config, "num_channels": 2}))
    (base / "preprocessor_config.json").unlink()


def without_settings(base: Path) -> None:
    (base / "preprocessor_config.json").write_text("[")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (keep_pickle, "are pickles"),
        (without_a_head, "bert has no head for the classes of an image"),
        (with_own_code, "code of its own, which is never run"),
        (of_one_channel, "other channels than the base reads"),
        (without_settings, "preprocessor_config.json of the base cannot be read"),
    ],
)
def test_a_broken_base_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], said: str
) -> None:
    contract = write_image_project(tmp_path)
    damage(tmp_path / "base")
    message = refused(contract)
    assert said in message
    assert "fix:" in message


def test_another_size_is_refused(tmp_path: Path) -> None:
    contract = write_image_project(tmp_path)
    message = refused(contract, "data.decoding.size=[24, 24]")
    assert "reads no images of this size" in message
    assert "16 x 16" in message
    assert "images have no tokens" in refused(contract, "model.max_length=20")
