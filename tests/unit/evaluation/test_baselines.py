from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

from trainwright.contract.sections.data.images import Decoding, ImageData
from trainwright.contract.sections.data.split import RandomSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.contract.sections.metric import Metric
from trainwright.data.base.inputs import ImageInputs
from trainwright.data.encoders.pixel_statistics import measure_colours
from trainwright.data.images.prepare_images import prepare_images, read_images
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.evaluation.evaluate import Scored, evaluate
from trainwright.predictor.bundle import read_bundle, write_bundle


def _prepared(folder: Path, leak: bool) -> Prepared:
    generator = np.random.default_rng(0)
    age = generator.normal(40, 10, 600).round(1)
    size = generator.normal(size=600).round(3)
    yes = age + 15 * generator.normal(size=600) > 40
    code = yes * 1.5 + 0.01 * generator.normal(size=600) if leak else size
    frame = pl.DataFrame(
        {"age": age, "code": code.round(4), "label": np.where(yes, "yes", "no")}
    ).with_columns(age=pl.when(pl.col("age") > 50).then(None).otherwise("age"))
    frame.write_csv(folder / "rows.csv")
    section = TableData(
        path="rows.csv",
        split=RandomSplit(kind="random"),
        features=Features(numeric="none", impute="none"),
    )
    return prepare_table(read_table(section, folder), section, "classification", 0)


def test_the_linear_one_is_fitted_where_the_model_has_missing_numbers(tmp_path: Path) -> None:
    prepared = _prepared(tmp_path, leak=False)
    assert np.isnan(prepared.train.inputs.numeric).any()
    baselines = fit_baselines(prepared)
    scores = baselines.scores(prepared.test)
    assert set(scores) == {"dummy", "linear"}
    assert all(np.isfinite(one).all() for one in scores.values())
    assert len(np.unique(scores["dummy"], axis=0)) == 1
    assert sum(baselines.shares.values()) == pytest.approx(1.0)
    assert baselines.shares["age"] + baselines.shares["age (missing)"] > baselines.shares["code"]


@pytest.mark.parametrize("leak", [True, False])
def test_a_column_that_holds_the_answer_is_found(tmp_path: Path, leak: bool) -> None:
    prepared = _prepared(tmp_path, leak)
    baselines = fit_baselines(prepared)
    scores = baselines.scores(prepared.test)
    scored = Scored(prepared.test, prepared.target, scores["linear"], scores, baselines.shares)
    warnings = evaluate(scored, Metric(name="roc_auc", resamples=100), (), seed=0).warnings
    assert any("check 'code'" in warning for warning in warnings) == leak


def write_dyed(folder: Path) -> None:
    """Images of noise, of which one class is redder."""
    draw = np.random.default_rng(0)
    for row in range(120):
        pixels = draw.integers(0, 190, (10, 10, 3), dtype=np.uint8)
        pixels[..., 0] += np.uint8(25 * (row % 2))
        path = folder / "images" / ("plain", "red")[row % 2] / f"{row}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)


def test_colours_stand_beside_images_and_are_read_back(tmp_path: Path) -> None:
    write_dyed(tmp_path)
    decoding = Decoding(cache="off")
    section = ImageData(kind="images", path="images", decoding=decoding, test=0.3)
    prepared = prepare_images(read_images(section, tmp_path), section, 0)
    baselines = fit_baselines(prepared)
    scores = baselines.scores(prepared.test)
    assert list(scores) == ["dummy", "linear", "colours"]
    right = scores["colours"].argmax(axis=1) == prepared.test.target
    assert right.mean() > 0.95
    write_bundle(baselines.others["colours"], tmp_path / "bundle", {})
    again = read_bundle(tmp_path / "bundle")
    np.testing.assert_array_equal(again.score_part(prepared.test), scores["colours"])
    images = np.asarray(prepared.test.inputs.arrays(0, 5)["pixels"])
    named = again.predict(images)
    assert named["prediction"].to_list() == [
        prepared.target.names[code] for code in scores["colours"][:5].argmax(axis=1)
    ]


def test_colour_statistics_are_those_of_each_channel() -> None:
    draw = np.random.default_rng(0)
    pixels = draw.integers(0, 256, (7, 2, 5, 4), dtype=np.uint8)
    found = measure_colours(ImageInputs.of(pixels))
    assert found.shape == (7, 36)
    channel = pixels[3, 1] / 255
    np.testing.assert_allclose(found[3, 18:20], [channel.mean(), channel.std()], atol=1e-6)
    bins = np.histogram(pixels[3, 1], bins=16, range=(0, 256))[0] / 20
    np.testing.assert_allclose(found[3, 20:], bins)
