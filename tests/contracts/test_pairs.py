"""The contract of the guide on image-text pairs: trained, judged, matched, killed and resumed."""

from __future__ import annotations

import shutil
from hashlib import md5
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

import trainwright as tw
from canary import Killed
from command import command
from contract_runs import bits, train
from guide import GUIDE, blocks
from real_data import real_data
from trainwright.contract.sections.metric import Metric
from trainwright.core.errors import DataMistake, Mistake
from trainwright.core.files import read_json
from trainwright.evaluation.curves.plot_data import RetrievalCurves
from trainwright.evaluation.metrics.metric_values import measure
from trainwright.run.after.evaluate_rows import evaluate_rows, match_file, predict_file
from trainwright.run.judging.write_predictions import read_predictions
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

PAGE = GUIDE / "image-text.md"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pairs"
FEW = ("training.num_epochs=3", "metric.resamples=100")


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "pairs")
    return tmp_path / "pairs" / "contract.yaml"


def test_the_page_shows_the_example() -> None:
    whole = (EXAMPLE / "contract.yaml").read_text(encoding="utf-8")
    assert blocks(PAGE, "yaml")[0] == whole.partition("\n")[2]


def test_it_trains_judges_and_reports(contract: Path, tmp_path: Path) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=list(FEW))
    folder, found = RunFolder(result.folder), result.evaluation
    assert set(found.metrics) == set(found.baselines["linear"])
    assert found.units == found.rows == 18
    assert found.baselines["dummy"]["image_to_text_recall_at_1"].value == pytest.approx(1 / 18)
    assert found.baselines["linear"]["mean_recall"].value > 0.4
    assert {one.name for one in found.slices} > {"shape=circle"}
    assert any("18 texts or 18 images" in one for one in found.warnings)
    curves = found.curves
    assert isinstance(curves, RetrievalCurves)
    assert (curves.images, curves.texts) == (18, 18)
    judged = read_predictions(folder)
    for name, one in found.metrics.items():
        assert measure(name, judged.answers, Metric()) == pytest.approx(one.value)
    page = command("report", str(result.folder))
    assert page.code == 0, page.err
    assert "Texts found by images" in (result.folder / "report.html").read_text()


@pytest.mark.extended
def test_matches_are_those_of_the_embeddings(contract: Path, tmp_path: Path) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=list(FEW))
    folder, table = RunFolder(result.folder), contract.parent / "captions.csv"
    texts = tmp_path / "texts.csv"
    pl.read_csv(table).select("caption").head(7).write_csv(texts)
    images = predict_file(folder, table).frame
    of_texts = predict_file(folder, texts).frame
    assert images.columns[:2] == ["image", "embedding_0"]
    first, second = images.drop("image").to_numpy(), of_texts.drop("caption").to_numpy()
    np.testing.assert_allclose(np.linalg.norm(first, axis=1), 1)
    cosines = second @ first.T
    found = match_file(folder, str(texts), str(table), 3).frame
    names = images["image"].gather(cosines.argmax(axis=1))
    assert found["match_1"].to_list() == names.to_list()
    np.testing.assert_allclose(found["cosine_1"].to_numpy(), cosines.max(axis=1), atol=1e-6)
    assert found["probability_1"].is_between(0, 1).all()
    assert (found["cosine_2"] >= found["cosine_3"]).all()
    # Classes are texts: each image has the likeliest.
    zero_shot = match_file(folder, str(contract.parent / "images"), str(texts), 7).frame
    assert zero_shot.height == 120
    total = zero_shot.select(pl.sum_horizontal(f"probability_{at}" for at in range(1, 8)))
    np.testing.assert_allclose(total.to_numpy(), 1, atol=1e-9)
    again = tw.load(result.folder / "bundle").predict(pl.read_csv(texts))
    np.testing.assert_allclose(again.to_numpy(), second, atol=1e-6)
    ran = command(
        "predict", str(result.folder), str(texts), "--candidates", str(table), "--top", "2"
    )
    assert ran.code == 0, ran.err
    assert "match_2" in ran.out
    refused = command(
        "predict", str(result.folder), str(table), "--candidates", str(table.parent / "images")
    )
    assert refused.code == 2
    assert "write the texts into such a table" in refused.err


@pytest.mark.extended
def test_another_table_is_judged_by_its_own_candidates(contract: Path, tmp_path: Path) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=list(FEW))
    judged = evaluate_rows(RunFolder(result.folder), contract.parent / "captions.csv")
    dummy = judged.evaluation.baselines["dummy"]["text_to_image_recall_at_1"].value
    assert dummy == pytest.approx(1 / 120)


@pytest.mark.extended
@pytest.mark.parametrize("death", sorted(np.random.default_rng(0).choice(range(1, 9), 3, False)))
def test_a_killed_training_goes_on_to_the_same_bits(contract: Path, death: int) -> None:
    """With dropout, augmentation, an average of the weights and three micro-batches a step."""
    settings = (
        "training={num_epochs: 3, batch_size: 10, effective_batch_size: 30, average: {kind: ema}, "
        "checkpointing: {save_every_n_steps: 2}}",
        "data.augment={crop: 2, flip: true}",
        "data.num_workers=0",
        "model.text.dropout=0.3",
        "model.image.dropout=0.2",
    )
    whole = train(contract, "whole", *settings)
    with pytest.raises(Killed):
        train(contract, "cut", *settings, dies_at=int(death))
    assert bits(train(contract, "cut", *settings)) == bits(whole)


@pytest.mark.extended
def test_the_division_of_a_step_does_not_change_its_update(contract: Path) -> None:
    common = (
        "training.num_epochs=2",
        "training.gradient_clipping=off",
        "training.optimizer={name: sgd, learning_rate: 0.1, momentum: 0.0}",
        "model.text.dropout=0.0",
        "training.scheduler={name: constant}",
    )
    runs = [
        train(contract, f"of-{size}", *common, f"training.batch_size={size}")
        for size in (80, 20, 7 + 1)
    ]
    losses = np.array([run.signals["loss"] for run in runs])
    np.testing.assert_allclose(losses[1:], losses[[0, 0]], atol=2e-4)
    first, *others = (dict(run.job.model.state_dict()) for run in runs)
    for other in others:
        for name, tensor in first.items():
            assert float((other[name] - tensor).abs().max()) < 1e-4, name


def test_pairs_of_one_image_stay_together(contract: Path) -> None:
    table = contract.parent / "captions.csv"
    frame = pl.read_csv(table)
    twice = pl.concat([frame, frame.with_columns(pl.col("caption") + " again")])
    twice.write_csv(table)
    ready = tw.prepare(contract).ready
    parts = (ready.prepared.train, ready.prepared.validation, ready.prepared.test)
    images = [set(part.frame["image"]) for part in parts]
    assert sum(map(len, images)) == 120
    assert all(len(np.unique(part.units)) == len(part) // 2 for part in parts)
    assert (
        "equal",
        "240 pairs share an image and 0 a caption with another: these are no negatives "
        "of each other",
    ) in ready.raw.remarks


def test_groups_stay_together(contract: Path) -> None:
    parts = tw.prepare(
        contract, overrides=["data.group=shape", "data.test=0.25", "data.validation=0.25"]
    )
    prepared = parts.ready.prepared
    shapes = [
        set(part.frame["shape"]) for part in (prepared.train, prepared.validation, prepared.test)
    ]
    assert sum(map(len, shapes)) == 4
    assert len(np.unique(prepared.test.units)) == len(shapes[2])


@pytest.mark.extended
def test_copies_between_the_parts_are_found_and_tried(contract: Path, tmp_path: Path) -> None:
    folder = contract.parent
    frame = pl.read_csv(folder / "captions.csv")
    frame[:96].write_csv(folder / "train.csv")
    pl.concat([frame[96:], frame[:8].with_columns(pl.col("caption") + " too")]).write_csv(
        folder / "test.csv"
    )
    paths = ["data.path=train.csv", "data.test_path=test.csv"]
    result = tw.train(contract, runs=tmp_path / "runs", overrides=[*FEW, *paths])
    found = {one.finding: one for one in result.verdict.experiments}
    assert "without 6 test images of 32" in found["exact_duplicates"].method


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ("image,caption\n", "nothing|no rows|header|no image"),
        ("image,caption\nimages/none.png,a\n", "no such file"),
        ("image,caption\n../x.png,a\n", "leads out of its folder"),
        ("image,words\nimages/circle-red-blue.png,a\n", "caption"),
        ("image,caption\nimages/circle-red-blue.png,\n", "no caption"),
    ],
)
def test_tables_that_cannot_be_read(contract: Path, edit: str, message: str) -> None:
    (contract.parent / "captions.csv").write_text(edit)
    with pytest.raises(Mistake, match=message):
        tw.prepare(contract)


@pytest.mark.extended
def test_corrupt_images_are_dropped_with_their_captions(contract: Path) -> None:
    frame = pl.read_csv(contract.parent / "captions.csv")
    (contract.parent / frame["image"][3]).write_bytes(b"no image")
    with pytest.raises(DataMistake):
        tw.prepare(contract)
    ready = tw.prepare(contract, overrides=["data.decoding.corrupt=drop"]).ready
    assert ready.raw.facts.rows == 119
    kept = ready.raw.frames["train"]
    assert kept["caption"].to_list() == frame.filter(pl.int_range(120) != 3)["caption"].to_list()
    assert any("1 pair" in text for _, text in ready.raw.remarks)


@pytest.mark.extended
def test_the_linear_baseline_of_emoji_is_that_of_its_page(tmp_path: Path) -> None:
    """A ridge regression of 16 x 16 pixels on TF-IDF weights found 0.159 of 353 at 1, and 0.272 at
    10, by scikit-learn (README of the data)."""
    folder = real_data("emoji-captions")
    frame = pl.read_csv(folder / "captions.csv").filter(pl.col("skin_tone_variant") == 0)
    tested = pl.Series([int(md5(one.encode()).hexdigest(), 16) % 5 == 0 for one in frame["image"]])
    frame.filter(~tested).write_csv(tmp_path / "train.csv")
    frame.filter(tested).write_csv(tmp_path / "test.csv")
    contract = {
        "data": {
            "kind": "pairs",
            "path": str(tmp_path / "train.csv"),
            "test_path": str(tmp_path / "test.csv"),
            "root": str(folder),
            "decoding": {"size": [32, 32]},
        },
        "model": {
            "kind": "dual_encoder",
            "width": 16,
            "image": {"kind": "resnet", "width": 4, "blocks": [1], "stem": "half"},
            "text": {"kind": "bag", "width": 32},
        },
        "metric": {"target": "dummy", "resamples": 100},
        "training": {"num_epochs": 1, "batch_size": 256},
        "slices": [{"column": "group"}],
    }
    found = tw.train(contract, runs=tmp_path / "runs", overrides=[]).evaluation
    assert found.rows == 353
    assert 0.14 < found.baselines["linear"]["image_to_text_recall_at_1"].value < 0.22
    assert 0.25 < found.baselines["linear"]["image_to_text_recall_at_10"].value < 0.35
    assert found.baselines["dummy"]["image_to_text_recall_at_1"].value == pytest.approx(1 / 353)
    assert len(found.slices) >= 9


@pytest.fixture
def bases(contract: Path) -> tuple[str, ...]:
    """Settings of a contract with a ViT and a BERT, both tiny."""
    pytest.importorskip("transformers", reason="needs the transformers extra")
    from made_image_bases import write_image_base
    from made_texts import write_base

    write_image_base(contract.parent / "eye", "vit")
    write_base(contract.parent / "reader", "bert")
    return (
        "model={kind: dual_encoder, width: 16, image: {kind: pretrained, architecture: eye}, "
        "text: {kind: pretrained, architecture: reader}}",
        "training={num_epochs: 3, batch_size: 10, effective_batch_size: 30, "
        "checkpointing: {save_every_n_steps: 2}}",
        "data.num_workers=0",
        "metric.resamples=100",
    )


@pytest.mark.extended
def test_bases_are_read_trained_and_found_again(
    contract: Path, tmp_path: Path, bases: tuple[str, ...]
) -> None:
    result = tw.train(contract, runs=tmp_path / "runs", overrides=list(bases))
    plan = read_json(result.folder / "plan.json")["contract"]["model"]
    assert plan["image"]["base"]["reads"] == "images"
    assert len(plan["text"]["base"]["weights"]) == 64
    assert plan["text"]["num_labels"] == plan["image"]["num_labels"] == 16
    shutil.rmtree(contract.parent / "eye")
    shutil.rmtree(contract.parent / "reader")
    folder, table = RunFolder(result.folder), contract.parent / "captions.csv"
    judged = evaluate_rows(folder, table).evaluation
    assert judged.rows == 120
    texts = tmp_path / "texts.csv"
    pl.read_csv(table).select("caption").head(5).write_csv(texts)
    assert match_file(folder, str(texts), str(table), 2).frame.height == 5


def test_a_killed_training_of_bases_goes_on_to_the_same_bits(
    contract: Path, bases: tuple[str, ...]
) -> None:
    whole = train(contract, "whole", *bases)
    with pytest.raises(Killed):
        train(contract, "cut", *bases, dies_at=5)
    assert bits(train(contract, "cut", *bases)) == bits(whole)


@pytest.mark.extended
def test_bases_unfreeze_in_stages(contract: Path, bases: tuple[str, ...]) -> None:
    """In the first epoch the heads and the temperature are trained, then the encoders too."""
    once = bases[1].replace("num_epochs: 3", "num_epochs: 1")
    frozen = "training.freeze={image.vit: 1, text.bert: always}"
    start = train(contract, "start", bases[0], once, *bases[2:], frozen)
    staged = train(contract, "staged", *bases, frozen)
    first, last = (dict(one.job.model.state_dict()) for one in (start, staged))
    moved = {
        name.rpartition(".")[0].partition(".encoder")[0]
        for name, tensor in last.items()
        if not torch.equal(tensor, first[name])
    }
    assert any(name.startswith("image.vit") for name in moved)
    assert not any(name.startswith("text.bert") for name in moved)
    assert any(name.startswith("text.classifier") for name in moved)


def test_a_base_with_batch_norm_is_refused(contract: Path, bases: tuple[str, ...]) -> None:
    from made_image_bases import write_image_base

    write_image_base(contract.parent / "conv", "resnet")
    with pytest.raises(Mistake, match="batch norm") as raised:
        tw.prepare(contract, overrides=[*bases, "model.image.architecture=conv"])
    assert raised.value.problems[0].path == "model.image.architecture"


def test_a_base_that_is_missing_is_named_by_its_encoder(
    contract: Path, bases: tuple[str, ...]
) -> None:
    with pytest.raises(Mistake) as raised:
        tw.prepare(contract, overrides=[*bases, "model.text.architecture=./gone"])
    assert raised.value.problems[0].path == "model.text.architecture"


@pytest.mark.extended
def test_seeds_are_compared(contract: Path, tmp_path: Path) -> None:
    result = tw.train(
        contract,
        runs=tmp_path / "runs",
        overrides=[*FEW, "training.seeds=2", "metric.target=dummy"],
    )
    (found,) = [
        one["metrics"]
        for one in read_json(result.folder / "evaluation.json").values()
        if isinstance(one, dict) and "reached" in one
    ]
    for name, one in result.evaluation.metrics.items():
        assert found[name][0] == pytest.approx(one.value)
    assert found["text_to_image_mrr"][0] != found["text_to_image_mrr"][1]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("metric.quantiles=[0.1, 0.5, 0.9]", "several quantiles are predicted of a number"),
        ("training.calibration=temperature", "no class probabilities"),
        ("training.refit=true", "refit"),
        ("data.sampling.kind=balanced", "balanced"),
        ("metric.name=accuracy", "metric of classification"),
        ("model={kind: resnet}", "cannot read data of kind pairs"),
        ("tracking.windows={noise_scale: 5}", "one micro-batch"),
        ("training.compute.compile=on", "one micro-batch"),
    ],
)
def test_what_a_retrieval_has_not(contract: Path, setting: str, message: str) -> None:
    with pytest.raises(Mistake, match=message) as raised:
        tw.prepare(contract, overrides=[setting])
    assert all(one.fix for one in raised.value.problems)


@pytest.mark.extended
def test_a_fit_in_python_tells_its_validation_score(contract: Path, tmp_path: Path) -> None:
    fitted = tw.fit(contract, runs=tmp_path / "runs", overrides=list(FEW), progress=False)
    assert 0 <= fitted.validation.metrics["mean_recall"].value <= 1


def test_a_run_goes_on_with_the_same_base_only(contract: Path, bases: tuple[str, ...]) -> None:
    from made_image_bases import write_image_base

    settings = [word for one in bases for word in ("--set", one)]
    runs = ["--runs", str(contract.parent / "runs"), "--run", "one"]
    ran = command("train", str(contract), *runs, *settings)
    assert ran.code in (0, 3), ran.err
    write_image_base(contract.parent / "eye", "vit", hidden_size=24)
    again = command("train", str(contract), *runs, *settings, "--resume")
    assert again.code == 2
    assert "another base of its model" in again.err
    assert "model.image.base" in again.err
