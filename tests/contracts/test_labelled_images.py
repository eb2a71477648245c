"""Images with any number of labels: read, divided, learned, judged and predicted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, f1_score, hamming_loss

import trainwright as tw
from command import Ran, command, inside
from made_pictures import encoded
from trainwright.core.errors import DataMistake
from trainwright.core.files import read_json
from trainwright.data.columns.label_set import LabelSet
from trainwright.predictor.bundle import read_bundle
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

COLOURS = ("red", "green", "blue")
ROWS, SIDE = 64, 8
CONTRACT = """\
name: tagged
data:
  kind: images
  path: tagged.csv
  labels: {separator: ";", empty: none}
  decoding: {cache: "off"}
  num_workers: 0
model: {kind: resnet, blocks: [1], width: 4}
training: {num_epochs: 2, batch_size: 16, mixed_precision: fp32}
metric: {name: average_precision, target: dummy, resamples: 100}
"""
JUDGED = (0, 3)


def tagged(row: int, side: int = SIDE) -> tuple[str, np.ndarray]:
    """The labels of an image, each of which makes a colour brighter."""
    pixels = np.random.default_rng(row).integers(0, 150, (side, side, 3), dtype=np.uint8)
    has = [bool(row >> at & 1) for at in range(3)]
    pixels[..., has] += np.uint8(60)
    return ";".join(name for name, yes in zip(COLOURS, has, strict=True) if yes), pixels


def write_images(folder: Path, rows: int = ROWS, side: int = SIDE) -> None:
    (folder / "shown").mkdir()
    lines = ["image,label"]
    for row in range(rows):
        labels, pixels = tagged(row, side)
        (folder / "shown" / f"{row}.png").write_bytes(encoded(pixels))
        lines.append(f"shown/{row}.png,{labels}")
    (folder / "tagged.csv").write_text("\n".join(lines) + "\n")
    (folder / "contract.yaml").write_text(CONTRACT)


def trains(run: str, *settings: str) -> Ran:
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "contract.yaml", "--run", run, *words)
    assert ran.code in JUDGED, ran.err
    return ran


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With the run `linear`, of the pixels, whose labels have thresholds."""
    folder = tmp_path_factory.mktemp("tagged")
    write_images(folder)
    with inside(folder):
        trains("linear", "model={kind: linear}", "training={threshold: 0.4}", "metric.target=0.3")
        yield folder


def judged(run: str) -> Any:
    return read_json(Path("runs", run, "evaluation.json"))["evaluation"]


def test_metrics_are_those_of_scikit_learn_and_of_each_label(project: Path) -> None:
    found = read_predictions(RunFolder(Path("runs/linear")))
    truth, scores, chosen = found.answers.truth, found.answers.scores, found.answers.chosen()
    target = found.target
    assert isinstance(target, LabelSet)
    assert target.names == tuple(sorted(COLOURS))
    values = {name: one["value"] for name, one in judged("linear")["metrics"].items()}
    assert values["hamming_loss"] == pytest.approx(hamming_loss(truth, chosen))
    assert values["f1_micro"] == pytest.approx(f1_score(truth, chosen, average="micro"))
    assert values["f1_macro"] == pytest.approx(f1_score(truth, chosen, average="macro"))
    each = [average_precision_score(truth[:, at], scores[:, at]) for at in range(3)]
    assert values["average_precision"] == pytest.approx(np.mean(each))
    named = {one["name"]: one["metrics"] for one in judged("linear")["targets"]}
    assert set(named) == set(COLOURS)
    assert named["blue"]["average_precision"]["value"] == pytest.approx(each[0])


def test_colours_tell_what_the_dummy_does_not(project: Path) -> None:
    baselines = judged("linear")["baselines"]
    assert set(baselines) == {"dummy", "linear", "colours"}
    value = {name: one["average_precision"]["value"] for name, one in baselines.items()}
    assert value["colours"] > 0.9 > value["dummy"]


def test_new_images_are_evaluated_and_predicted(project: Path) -> None:
    again = command("evaluate", "linear", "tagged.csv")
    assert again.code in JUDGED, again.err
    assert "blue average_precision" in again.out
    written = command("predict", "linear", "shown", "-o", "out.csv")
    assert written.code == 0, written.err
    rows = pl.read_csv("out.csv")
    assert rows.height == ROWS
    given = (rows["probability_red"] >= 0.4).cast(pl.Int64)
    assert (rows["prediction_red"] == given).all()
    pixels = np.stack([tagged(row)[1].transpose(2, 0, 1) for row in range(5)])
    assert tw.load("runs/linear").predict(pixels).height == 5


@pytest.mark.extended
def test_trees_of_xgboost_read_the_pixels(project: Path) -> None:
    pytest.importorskip("xgboost")
    trains("trees", "model={kind: xgboost, max_trees: 10}", "training={}", "metric.target=0.3")
    named = {one["name"]: one["metrics"] for one in judged("trees")["targets"]}
    assert set(named) == {"blue", "green", "red"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("data.path=shown_by_class",), "the one label that the folder is called by"),
        (("data.labels.empty=missing",), "have no label"),
        (("data.test_path=other.csv",), "unseen in training"),
        (("data.labels={empty: none}",), "only images with a list of labels may have none"),
        (("data.classes=[blue, green, red]",), "in alphabetical order"),
        (("metric.name=accuracy",), "accuracy is a metric of one target"),
        (("model={kind: neighbours}", "training={}"), "predicts one label of an image"),
        (("training.refit=true",), "a table that is no ranking"),
    ],
)
def test_what_does_not_go_together_is_refused(
    project: Path, settings: tuple[str, ...], said: str
) -> None:
    by_class = Path("shown_by_class/red")
    by_class.mkdir(parents=True, exist_ok=True)
    (by_class / "0.png").write_bytes(encoded(tagged(1)[1]))
    Path("other.csv").write_text("image,label\nshown/0.png,violet;red\nshown/1.png,red\n")
    words = [word for setting in settings for word in ("--set", setting)]
    ran = command("train", "contract.yaml", "--run", "never", *words)
    assert ran.code == 2
    assert said in ran.err
    assert not Path("runs/never").exists()


def test_a_label_that_all_training_images_have_is_refused(project: Path) -> None:
    lines = Path("tagged.csv").read_text().splitlines()
    rows = [f"{line};same" if at else line for at, line in enumerate(lines)]
    Path("same.csv").write_text("\n".join(rows) + "\n")
    with pytest.raises(DataMistake, match="all agree on 1 label") as caught:
        tw.prepare("contract.yaml", overrides=["data.path=same.csv"])
    assert caught.value.problems[0].path == "data.fields.label"


@pytest.mark.extended
def test_folds_test_every_image_once(project: Path) -> None:
    trains("folds", "data.split.folds=2", "model={kind: linear}", "training={}")
    rows = pl.read_parquet("runs/folds/predictions.parquet")
    assert sorted(rows["row"].to_list()) == list(range(ROWS))


@pytest.mark.torch
def test_a_network_learns_the_labels_and_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from canary import Killed
    from contract_runs import bits, train

    write_images(tmp_path)
    contract = tmp_path / "contract.yaml"
    settings = (
        "training.checkpointing={save_every_n_steps: 1}",
        "data.augment={flip: true, mixup: 0.2}",
        "training.loss={name: binary_cross_entropy, class_weights: balanced}",
    )
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=3)
    assert bits(train(contract, "cut", *settings)) == bits(whole)


@pytest.mark.torch
def test_blended_labels_have_the_loss_of_soft_targets() -> None:
    torch = pytest.importorskip("torch")
    from trainwright.objective.classification_losses import BinaryCrossEntropyLoss
    from trainwright.objective.losses import Mixed
    from trainwright.objective.regression_losses import SeveralTargetsLoss

    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 3, generator=draw)
    first, second = (torch.rand(2, 5, 3, generator=draw) > 0.5).long()
    share = torch.rand(5, generator=draw)
    blended = Mixed(SeveralTargetsLoss(BinaryCrossEntropyLoss()))
    total = blended(torch.nn.Identity(), (logits, first, second, share))[0]
    soft = share[:, None] * first + (1 - share[:, None]) * second
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, soft, reduction="none")
    torch.testing.assert_close(total, expected.mean(dim=1).sum())


NET = """
from torch import nn


class Net(nn.Module):
    def __init__(self, shape):
        super().__init__()
        channels, height, width = shape.size
        self.last = nn.Linear(channels * height * width, shape.outputs)

    def forward(self, pixels):
        return self.last((pixels / 255).flatten(1))


def build(shape):
    return Net(shape)
"""


@pytest.mark.extended
@pytest.mark.torch
def test_an_imported_network_predicts_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path)
    Path("nets_of_tags.py").write_text(NET)
    ran = command(
        *("train", "contract.yaml", "--run", "own", "--allow-code"),
        *("--set", "model={kind: imported, target: 'nets_of_tags:build'}"),
    )
    assert ran.code in JUDGED, ran.err
    assert {one["name"] for one in judged("own")["targets"]} == set(COLOURS)


@pytest.mark.extended
@pytest.mark.torch
def test_a_model_of_transformers_gives_the_probabilities_of_its_own_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from made_image_bases import write_image_base
    from trainwright.data.base.inputs import ImageInputs

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path, 48, 16)
    write_image_base(tmp_path / "base", "resnet")
    trains("vision", "model={architecture: base}", "training.num_epochs=1")
    bundle = Path("runs/vision/bundle")
    config = read_json(bundle / "config.json")
    assert config["problem_type"] == "multi_label_classification"
    assert list(config["id2label"].values()) == sorted(COLOURS)
    pixels = np.stack([tagged(row, 16)[1].transpose(2, 0, 1) for row in range(4)])
    ours = read_bundle(bundle).score(ImageInputs.of(pixels))
    model = transformers.AutoModelForImageClassification.from_pretrained(bundle)
    settings = read_json(bundle / "preprocessor_config.json")
    mean, deviation = (
        np.array(settings[name]).reshape(1, 3, 1, 1) for name in ("image_mean", "image_std")
    )
    given = torch.tensor((pixels / 255 - mean) / deviation, dtype=torch.float32)
    with torch.no_grad():
        expected = torch.sigmoid(model(given).logits).numpy()
    np.testing.assert_allclose(ours, expected, atol=1e-5)
