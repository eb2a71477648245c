"""Images and texts from the contract to the verdict, and on from a checkpoint."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from made_data import make_images, make_text
from real_data import real_data

pytest.importorskip("torch")

import trainwright as tw
from trainwright.cli.render import commands_with_a_run
from trainwright.core.errors import Interrupted, Mistake
from trainwright.core.progress import Progress
from trainwright.data.images.mnist import read_idx
from trainwright.engine.stopping.stop_rules import StopReason, StopRequested
from trainwright.run.after.evaluate_rows import evaluate_rows, predict_file
from trainwright.tracking.run_folder import RunFolder

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("whole_pages")]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK = ["metric.resamples=100"]
IMAGES = """
data: {kind: images, path: data, classes: [low, middle, high], validation: 0.2,
       augment: {crop: 1, cutout: 2, mixup: 0.2, cutmix: 1.0}}
model: {kind: resnet, width: 8, blocks: [1, 1], stochastic_depth: 0.1}
training: {num_epochs: 8, batch_size: 16, early_stopping: off,
           loss: {name: cross_entropy, label_smoothing: 0.05},
           optimizer: {learning_rate: 0.01}}
metric: {target: 0.8}
slices: [{column: label, metric: accuracy}]
"""
ALL_CHANGES = [
    "data.augment.flip=true",
    "data.augment.randaugment.operations=2",
    "data.augment.colors.brightness=0.3",
    "data.augment.colors.contrast=0.3",
    "data.augment.erase.probability=0.5",
]
TEXT = """
data: {kind: tokens, path: text.txt}
model: {kind: gpt, layers: 1, heads: 2, width: 32, context: 16}
training: {num_epochs: 4, batch_size: 16, early_stopping: off, optimizer: {learning_rate: 0.01}}
metric: {target: dummy}
slices: [{where: "position > 1000", name: late}]
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    make_images(tmp_path / "data")
    (tmp_path / "contract.yaml").write_text(IMAGES)
    return tmp_path / "contract.yaml"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    make_text(tmp_path / "text.txt")
    (tmp_path / "contract.yaml").write_text(TEXT)
    return tmp_path / "contract.yaml"


def test_images_come_to_their_verdict(images: Path, tmp_path: Path) -> None:
    run = tw.train(images, overrides=QUICK, runs=tmp_path / "runs")
    assert run.verdict.status == "met"
    assert {one.name for one in run.evaluation.slices} == {
        "label=low",
        "label=middle",
        "label=high",
    }
    assert run.evaluation.baselines["linear"]["accuracy"].value > 0.9
    assert run.report.stat().st_size > 10_000
    test = read_idx(tmp_path / "data" / "t10k-images-idx3-ubyte.gz", "t10k", 3).values
    predicted = run.predictor.predict(test)
    right = [("low", "middle", "high")[row % 3] for row in range(60)]
    share = np.mean([a == b for a, b in zip(predicted["prediction"], right, strict=True)])
    assert share == pytest.approx(run.evaluation.metrics["accuracy"].value)
    with pytest.raises(Mistake, match="these are not images"):
        run.predictor.predict({"label": ["low"]})
    file = tmp_path / "data" / "t10k-images-idx3-ubyte.gz"
    assert predict_file(RunFolder.open(run.folder), file).frame.equals(predicted)


@pytest.mark.extended
@pytest.mark.parametrize("model", ["{kind: linear}", "{kind: boosting, max_trees: 10}"])
def test_images_as_columns_need_no_network(images: Path, tmp_path: Path, model: str) -> None:
    text = images.read_text()
    start, end = text.index("model:"), text.index("metric:")
    images.write_text(f"{text[:start]}model: {model}\n{text[end:]}")
    run = tw.train(images, overrides=QUICK, runs=tmp_path / "runs")
    assert run.evaluation.metrics["accuracy"].value > 0.8


def test_a_text_comes_to_its_verdict(text: Path, tmp_path: Path) -> None:
    run = tw.train(text, overrides=QUICK, runs=tmp_path / "runs")
    evaluation = run.evaluation
    assert run.verdict.status == "met"
    nats = evaluation.metrics["nats_per_token"]
    assert evaluation.metrics["perplexity"].value == pytest.approx(np.exp(nats.value))
    # A character of this text is a byte.
    bits = evaluation.metrics["bits_per_byte"]
    assert bits.value == pytest.approx(nats.value / np.log(2))
    assert bits.low < bits.value < bits.high
    assert nats.low < nats.value < nats.high
    # Three words of five letters at most, drawn evenly: ln 3 nats a word.
    assert np.log(3) / (5 + 1) < nats.value < evaluation.baselines["linear"]["nats_per_token"].value
    judged = evaluate_rows(RunFolder.open(run.folder), tmp_path / "text.txt")
    assert judged.evaluation.metrics["nats_per_token"].value == pytest.approx(nats.value, abs=0.1)
    with pytest.raises(Mistake, match="writing text is not available"):
        run.predictor.predict({"text": ["anna"]})
    assert commands_with_a_run(run.name, tmp_path / "runs") == [
        f"trainwright evaluate {run.name} TEXT --runs {tmp_path / 'runs'}"
    ]


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["images", "text"])
def test_a_run_cut_in_two_ends_with_the_same_weights(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    contract = request.getfixturevalue(kind)
    short = [*QUICK, "training.num_epochs=2", *(ALL_CHANGES if kind == "images" else [])]
    whole = tw.train(contract, overrides=short, runs=tmp_path / "whole")

    def stop_at_7(_: StopRequested, progress: Progress) -> StopReason | None:
        return StopReason("interrupted", "a test") if progress.step == 7 else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopRequested, "reason", stop_at_7)
        with pytest.raises(Interrupted):
            tw.train(contract, overrides=short, runs=tmp_path / "cut")
    cut = tw.train(contract, overrides=short, runs=tmp_path / "cut", resume=True)
    weights = [(run.folder / "bundle" / "network.safetensors").read_bytes() for run in (whole, cut)]
    assert weights[0] == weights[1]


@pytest.mark.parametrize(
    ("override", "path"),
    [
        ("model={kind: mlp}", "model.kind"),
        ("task=regression", "task"),
        ("training.loss.name=mse", "training.loss"),
        ("data.validation=0.0", "data.validation"),
        ("slices=[{column: age}]", "slices.0.column"),
    ],
)
def test_what_does_not_go_together_is_named(images: Path, override: str, path: str) -> None:
    with pytest.raises(Mistake) as caught:
        tw.read_contract(images, [override])
    assert any(problem.path.startswith(path) for problem in caught.value.problems)


def test_heads_must_divide_the_width(text: Path) -> None:
    with pytest.raises(Mistake, match="multiple of twice"):
        tw.read_contract(text, ["model.heads=3"])


@pytest.mark.extended
@pytest.mark.real_data
def test_the_example_of_images_trains(tmp_path: Path) -> None:
    few_pictures(real_data("fashion-mnist"), tmp_path / "few")
    run = tw.train(
        EXAMPLES / "fashion" / "contract.yaml",
        overrides=[
            *QUICK,
            f"data.path={tmp_path}/few",
            # In bf16, which some processors only imitate, it takes six times as long.
            "training.mixed_precision=fp32",
            "training.num_epochs=2",
            "model.width=8",
        ],
        runs=tmp_path,
    )
    assert run.evaluation.rows == 1000
    assert run.evaluation.metrics["accuracy"].value > 0.3


def few_pictures(source: Path, target: Path) -> None:
    """The first 1,500 images to train on and the first 1,000 to test on."""
    target.mkdir()
    for part, count in (("train", 1500), ("t10k", 1000)):
        for kind, head, size in (("images-idx3", 16, 28 * 28), ("labels-idx1", 8, 1)):
            name = f"{part}-{kind}-ubyte.gz"
            with gzip.open(source / name) as file:
                data = file.read(head + count * size)
            few = data[:4] + count.to_bytes(4, "big") + data[8:]
            (target / name).write_bytes(gzip.compress(few, 1, mtime=0))


@pytest.mark.extended
@pytest.mark.real_data
def test_the_example_of_a_text_trains(tmp_path: Path) -> None:
    folder = real_data("tinyshakespeare")
    run = tw.train(
        EXAMPLES / "shakespeare" / "contract.yaml",
        overrides=[
            *QUICK,
            f"data.path={folder}/input.txt",
            "data.validation=0.93",
            "data.test=0.01",
            "training.num_epochs=2",
            "model.layers=1",
            "model.width=32",
        ],
        runs=tmp_path,
    )
    assert run.evaluation.metrics["nats_per_token"].value < 4.2
