"""Zero-shot classification with the dual encoder of the guide's example."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, log_loss

import trainwright as tw
from command import command
from guide import GUIDE, blocks
from trainwright.contract.reading.read_zero_shot import read_zero_shot
from trainwright.core.errors import ContractMistake, Mistake
from trainwright.run.after.classify_zero_shot import evaluate_zero_shot, predict_zero_shot
from trainwright.run.after.evaluate_rows import evaluate_rows, predict_file
from trainwright.tracking.run_folder import RunFolder

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "pairs"
SHAPES = ["circle", "cross", "square", "triangle"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with a run of four epochs, `runs/one`."""
    folder = tmp_path_factory.mktemp("zero") / "pairs"
    shutil.copytree(EXAMPLE, folder)
    few = ["training.num_epochs=4", "metric.resamples=100"]
    tw.train(folder / "contract.yaml", runs=folder / "runs", name="one", overrides=few)
    return folder


def run_of(project: Path) -> RunFolder:
    return RunFolder(project / "runs" / "one")


def by_hand(project: Path, table: pl.DataFrame) -> np.ndarray:
    """Cosines [N, 4] of images and the averaged texts of the classes, from written embeddings."""
    wanted = read_zero_shot(project / "classes.yaml")
    texts = [text for label in SHAPES for text in wanted.texts_of(label)]
    pl.DataFrame({"caption": texts}).write_csv(project / "texts.csv")
    table.write_csv(project / "asked.csv")
    folder = run_of(project)
    of_texts = predict_file(folder, project / "texts.csv").frame.drop("caption").to_numpy()
    means = of_texts.reshape(4, len(wanted.templates), -1).mean(axis=1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    images = predict_file(folder, project / "asked.csv").frame.drop("image").to_numpy()
    return images @ means.T


def test_the_page_shows_the_example() -> None:
    whole = (EXAMPLE / "classes.yaml").read_text(encoding="utf-8")
    assert whole in blocks(GUIDE / "zero-shot.md", "yaml")


@pytest.mark.extended
def test_held_out_images_are_classified_by_averaged_texts(project: Path) -> None:
    table = pl.read_csv(project / "captions.csv")
    result = evaluate_zero_shot(
        run_of(project), str(project / "captions.csv"), project / "classes.yaml"
    )
    found = result.evaluation
    # 84 of the 120 were trained on.
    assert found.rows == 36
    assert any("84 of 120 images excluded" in one for one in found.warnings)
    cosines = by_hand(project, table)
    trained = tw.prepare(project / "contract.yaml").ready.prepared.train.frame["image"]
    held_out = ~table["image"].is_in(trained.to_list()).to_numpy()
    chosen = np.array(SHAPES)[cosines.argmax(axis=1)][held_out]
    truth = table["shape"].to_numpy()[held_out]
    assert found.metrics["accuracy"].value == pytest.approx(accuracy_score(truth, chosen))
    scale = float(np.exp(_log_scale(run_of(project))))
    odds = np.exp(scale * cosines[held_out])
    odds /= odds.sum(axis=1, keepdims=True)
    expected = log_loss(truth, odds, labels=SHAPES)
    assert found.metrics["log_loss"].value == pytest.approx(expected, abs=1e-5)
    most = max(np.mean(truth == one) for one in SHAPES)
    assert found.baselines["dummy"]["accuracy"].value == pytest.approx(most)
    assert 0 < found.baselines["linear"]["accuracy"].value < 1
    assert [one.against for one in result.verdict.clauses] == ["dummy", "linear"]
    assert found.metrics["accuracy"].low < found.metrics["accuracy"].value


def _log_scale(folder: RunFolder) -> float:
    from safetensors.numpy import load_file

    return float(load_file(folder.bundle / "network.safetensors")["log_scale"])


@pytest.mark.extended
def test_without_a_file_the_own_test_pairs_are_judged(project: Path) -> None:
    ran = command(
        "evaluate",
        str(project / "runs/one"),
        "--zero-shot",
        str(project / "classes.yaml"),
        "--json",
    )
    assert ran.code in (0, 3), ran.err
    found = json.loads(ran.out)
    assert {"accuracy", "f1_macro", "log_loss"} <= set(found["metrics"])
    assert found["clauses"][0]["against"] == "dummy"
    result = evaluate_zero_shot(run_of(project), "", project / "classes.yaml")
    assert result.evaluation.rows == 18
    assert result.evaluation.metrics["accuracy"].value == found["metrics"]["accuracy"]["value"]


@pytest.mark.extended
def test_folders_of_classes_and_slices_are_read(project: Path, tmp_path: Path) -> None:
    table = pl.read_csv(project / "captions.csv")
    trained = tw.prepare(project / "contract.yaml").ready.prepared.train.frame["image"]
    for row in table.filter(~pl.col("image").is_in(trained.to_list())).iter_rows(named=True):
        (tmp_path / "test" / row["shape"]).mkdir(parents=True, exist_ok=True)
        shutil.copy(project / row["image"], tmp_path / "test" / row["shape"])
    classes = tmp_path / "classes.yaml"
    classes.write_text((project / "classes.yaml").read_text() + "slices: [{column: shape}]\n")
    of_folder = evaluate_zero_shot(run_of(project), str(tmp_path / "test"), classes).evaluation
    of_table = evaluate_zero_shot(
        run_of(project), str(project / "captions.csv"), project / "classes.yaml"
    ).evaluation
    assert of_folder.rows == 36
    assert of_folder.metrics["accuracy"].value == of_table.metrics["accuracy"].value
    assert {one.name for one in of_folder.slices} == {f"shape={one}" for one in SHAPES}


def test_images_of_the_training_alone_are_refused(project: Path) -> None:
    trained = tw.prepare(project / "contract.yaml").ready.prepared.train.frame
    trained.select("image", "shape").write_csv(project / "trained.csv")
    with pytest.raises(Mistake, match="trained on all of these"):
        evaluate_zero_shot(run_of(project), str(project / "trained.csv"), project / "classes.yaml")


def test_pairs_of_the_training_are_told_of_a_retrieval(project: Path) -> None:
    trained = tw.prepare(project / "contract.yaml").ready.prepared.train.frame
    trained.select("image", "caption", "shape").write_csv(project / "again.csv")
    found = evaluate_rows(run_of(project), project / "again.csv").evaluation
    assert any("equal rows that run one was trained on" in one for one in found.warnings)


def test_images_get_a_class_each(project: Path) -> None:
    table = pl.read_csv(project / "captions.csv").select("image").head(7)
    cosines = by_hand(project, table)
    found = predict_zero_shot(run_of(project), str(project / "asked.csv"), project / "classes.yaml")
    assert found["prediction"].to_list() == [SHAPES[at] for at in cosines.argmax(axis=1)]
    ran = command(
        "predict",
        str(project / "runs/one"),
        str(project / "images"),
        "--zero-shot",
        str(project / "classes.yaml"),
        "-o",
        str(project / "out.csv"),
    )
    assert ran.code == 0, ran.err
    written = pl.read_csv(project / "out.csv")
    assert written.columns == ["image", "prediction", *(f"probability_{one}" for one in SHAPES)]
    assert written.height == 120


@pytest.mark.extended
def test_several_names_of_a_class_are_averaged(project: Path, tmp_path: Path) -> None:
    """A name twice changes nothing; another one does."""
    own = (project / "classes.yaml").read_text()
    found = []
    for names in ("[circle]", "[circle, circle]", "[circle, square]"):
        (tmp_path / "classes.yaml").write_text(f"{own}names: {{circle: {names}}}\n")
        scores = predict_zero_shot(
            run_of(project), str(project / "images"), tmp_path / "classes.yaml"
        )
        found.append(scores["probability_circle"].to_numpy())
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    assert np.abs(found[0] - found[2]).max() > 1e-3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("classes: [circle]", "classes"),
        ("classes: [circle, circle]", "listed twice"),
        ("classes: [circle, cross]\ntemplates: [a shape]", "the same of every class"),
        ("classes: [circle, cross]\nnames: {square: [box]}", "which is no class"),
        ("classes: [circle, cross]\nnames: {cross: []}", "has no name"),
        ("classes: [circle, cross, square]\nmetric: {name: f1}", "not measured on 3 classes"),
        ("classes: [circle, cross]\nmetric: {name: rmse}", "metric of regression"),
        ("classes: [circle, cross]\nmetric: {target: 7.0}", "can never be 7"),
        ("classes: [circle, cross]\ntemplate: [a]", "template"),
        ("- circle", "not a mapping"),
        ("classes: [circle, cross]\nlabel: shape", "of another class"),
        ("classes: [circle, cross]\nlabel: kind", "kind"),
    ],
)
def test_classes_that_contradict_themselves(
    project: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "classes.yaml").write_text(text)
    with pytest.raises(Mistake, match=message):
        evaluate_zero_shot(
            run_of(project), str(project / "captions.csv"), tmp_path / "classes.yaml"
        )


def test_what_does_not_go_with_classes(project: Path, tmp_path: Path) -> None:
    words = ["predict", str(project / "runs/one"), str(project / "images")]
    classes = ["--zero-shot", str(project / "classes.yaml")]
    refused = command(*words, *classes, "--candidates", str(project / "captions.csv"))
    assert refused.code == 2
    assert "leave out --candidates" in refused.err
    with pytest.raises(ContractMistake, match="cannot be read"):
        read_zero_shot(tmp_path / "none.yaml")


@pytest.mark.extended
def test_a_model_of_a_table_reads_no_classes(project: Path, tmp_path: Path) -> None:
    rows = {"x": list(range(60)), "y": [at % 2 for at in range(60)]}
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    contract = {"data": {"path": str(tmp_path / "rows.csv"), "target": "y"}}
    run = tw.train({**contract, "model": {"kind": "linear"}}, runs=tmp_path / "runs")
    with pytest.raises(Mistake, match="compares no images with texts"):
        evaluate_zero_shot(RunFolder(run.folder), "", project / "classes.yaml")
