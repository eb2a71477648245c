from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data import StratifiedSplit, TableData
from trainwright.contract.sections.features import Features
from trainwright.core.errors import DataMistake, Mistake
from trainwright.core.files import read_json
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines import fit_baselines
from trainwright.predictor.bundle import FILES, MANIFEST, read_bundle, write_bundle
from trainwright.predictor.input_rows import frame_of
from trainwright.predictor.predictor import Predictor
from trainwright.testing.scorer_conformance import FakeScorer


def _prepared(folder: Path, task: str = "classification") -> Prepared:
    generator = np.random.default_rng(0)
    age = generator.normal(40, 10, 300).round(1)
    city = np.where(generator.random(300) < 0.5, "Bern", "Rome")
    number = age + 5 * (city == "Rome") + generator.normal(size=300)
    label = np.where(number > 42, "yes", "no") if task == "classification" else number
    frame = pl.DataFrame({"age": age, "city": city, "label": label})
    frame = frame.with_columns(age=pl.when(pl.col("age") > 55).then(None).otherwise("age"))
    frame.write_csv(folder / "rows.csv")
    section = TableData(
        path="rows.csv",
        split=StratifiedSplit(kind="stratified") if task == "classification" else _random(),
        features=Features(numeric="none", impute="none"),
    )
    raw = read_table(section, folder)
    return prepare_table(
        raw, section, "classification" if task == "classification" else "regression", 0
    )


def _random() -> object:
    from trainwright.contract.sections.data import RandomSplit

    return RandomSplit(kind="random")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return _prepared(tmp_path_factory.mktemp("classes"))


@pytest.fixture(scope="module")
def predictor(prepared: Prepared) -> Predictor:
    return fit_baselines(prepared).linear


@pytest.fixture
def bundle(predictor: Predictor, tmp_path: Path) -> Path:
    write_bundle(predictor, tmp_path / "bundle", {"run": "x-1"})
    return tmp_path / "bundle"


ROWS = {"age": [30.0, None, 55.0], "city": ["Bern", "Rome", "Oslo"]}


def test_a_bundle_predicts_as_its_predictor_does(bundle: Path, predictor: Predictor) -> None:
    again = read_bundle(bundle)
    assert again.predict(ROWS).equals(predictor.predict(ROWS))
    assert read_json(bundle / MANIFEST)["about"] == {"run": "x-1"}
    assert {path.name for path in bundle.iterdir()} == {
        "bundle.json",
        "features.json",
        "target.json",
        "linear.json",
    }


def test_predictions_are_the_same_however_the_rows_come(predictor: Predictor) -> None:
    expected = predictor.predict(pl.DataFrame(ROWS))
    assert expected.columns == ["prediction", "probability_no", "probability_yes"]
    assert expected.height == 3
    rows = [{"age": 30.0, "city": "Bern"}, {"city": "Rome"}, {"age": 55.0, "city": "Oslo"}]
    texts = {"city": ["Bern", "Rome", "Oslo"], "age": ["30", "", "55.0"], "other": [1, 2, 3]}
    mixed = {"age": [30, None, 55.0], "city": ["Bern", "Rome", "Oslo"]}
    for given in (ROWS, rows, texts, mixed):
        assert predictor.predict(given).equals(expected)


def test_no_rows_get_no_predictions(predictor: Predictor) -> None:
    empty = predictor.predict(pl.DataFrame(schema={"age": pl.Float64, "city": pl.String}))
    assert empty.shape == (0, 3)
    assert empty.schema["prediction"] == pl.String


def test_the_chosen_class_is_the_most_probable(predictor: Predictor) -> None:
    answer = predictor.predict(ROWS)
    likely = pl.Series("prediction", np.where(answer["probability_yes"] > 0.5, "yes", "no"))
    assert answer["prediction"].equals(likely)


def test_a_missing_column_is_named(predictor: Predictor) -> None:
    with pytest.raises(DataMistake, match="city"):
        predictor.predict({"age": [1.0]})


@pytest.mark.parametrize("cell", ["abc", "1e300", "inf"])
def test_a_bad_cell_is_to_be_corrected_in_the_rows(predictor: Predictor, cell: str) -> None:
    """No setting of the contract can help: the model is trained."""
    with pytest.raises(DataMistake) as caught:
        predictor.predict({"age": ["30", cell, ""], "city": ["Bern", "Rome", "Oslo"]})
    (problem,) = caught.value.problems
    assert problem.fix.startswith("correct column 'age' in row 2 of the input")
    assert "data." not in problem.fix


def test_a_number_is_predicted_in_its_own_unit(tmp_path: Path) -> None:
    prepared = _prepared(tmp_path, "regression")
    baselines = fit_baselines(prepared)
    write_bundle(baselines.linear, tmp_path / "bundle", None)
    answer = read_bundle(tmp_path / "bundle").predict({"age": [40.0], "city": ["Rome"]})
    assert answer.columns == ["prediction"]
    assert float(answer["prediction"][0]) == pytest.approx(45, abs=1)
    dummy = baselines.dummy.predict({"age": [40.0], "city": ["Rome"]})["prediction"][0]
    assert dummy == pytest.approx(float(prepared.train.target.mean()))


@pytest.mark.parametrize(
    "rows",
    [{"age": [1.0, 2.0], "city": ["Bern"]}, {"age": 1.0}, {"age": "abc"}, [1, 2], "age"],
)
def test_what_is_not_rows_is_a_mistake(rows: object) -> None:
    with pytest.raises(DataMistake):
        frame_of(rows)


@pytest.mark.parametrize("name", ["features.json", "target.json", "linear.json"])
def test_a_changed_file_is_named(bundle: Path, name: str) -> None:
    content = bytearray((bundle / name).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / name).write_bytes(content)
    with pytest.raises(Mistake, match=f"{name} is not the file that was written"):
        read_bundle(bundle)


def test_missing_and_foreign_files_are_all_named(bundle: Path) -> None:
    (bundle / "target.json").unlink()
    (bundle / "evil.pickle").write_bytes(b"")
    with pytest.raises(Mistake) as raised:
        read_bundle(bundle)
    text = str(raised.value)
    assert "target.json is missing" in text
    assert "evil.pickle does not belong" in text


def test_a_link_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.json"
    (bundle / "target.json").rename(moved)
    (bundle / "target.json").symlink_to(moved)
    with pytest.raises(Mistake, match=r"target\.json is missing"):
        read_bundle(bundle)


def test_a_file_of_another_size_is_not_read(bundle: Path) -> None:
    """A sparse file takes no room and hours to hash."""
    os.truncate(bundle / "linear.json", 2**40)
    with pytest.raises(Mistake, match=r"linear\.json is not the file that was written"):
        read_bundle(bundle)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format 1"),
        ({"kind": "pickle"}, "its kind is 'pickle'"),
        ({"files": {"../../etc/passwd": {}}}, "does not list the files"),
        ({"files": None}, "does not list the files"),
    ],
)
def test_a_strange_manifest_is_refused(bundle: Path, change: dict[str, object], words: str) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(Mistake, match=words):
        read_bundle(bundle)


@pytest.mark.parametrize("text", ["", "[]", "{", "NaN", "[" * 100_000])
def test_a_manifest_that_is_not_json_is_refused(bundle: Path, text: str) -> None:
    (bundle / "bundle.json").write_text(text)
    with pytest.raises(Mistake, match="is not a bundle"):
        read_bundle(bundle)


def test_a_folder_without_a_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match=r"no bundle\.json"):
        read_bundle(tmp_path / "none")


def test_a_bundle_is_replaced_as_a_whole(bundle: Path, prepared: Prepared) -> None:
    write_bundle(fit_baselines(prepared).dummy, bundle, None)
    assert read_bundle(bundle).scorer.kind == "constant"
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_other_files_are_never_replaced(predictor: Predictor, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(Mistake, match="holds other files"):
        write_bundle(predictor, tmp_path, None)
    assert (tmp_path / "thesis.txt").exists()


def test_a_write_that_fails_leaves_the_old_bundle(bundle: Path, predictor: Predictor) -> None:
    broken = Predictor(predictor.features, predictor.target, FakeScorer())
    with pytest.raises(KeyError):
        write_bundle(broken, bundle, None)
    assert read_bundle(bundle).scorer.kind == "linear"
    assert [path.name for path in bundle.parent.iterdir()] == ["bundle"]


def test_every_kind_has_fixed_plain_files() -> None:
    endings = {Path(name).suffix for names in FILES.values() for name in names}
    assert endings == {".json", ".txt", ".safetensors"}
