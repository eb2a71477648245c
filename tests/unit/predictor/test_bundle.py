from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Features, TableData
from trainwright.core.errors import DamagedFile, DataMistake, Mistake
from trainwright.core.files import hash_bytes, read_json
from trainwright.data.base.categories import safe_quantiles
from trainwright.data.base.inputs import Floats, ImageInputs, Inputs
from trainwright.data.base.token_inputs import TokenInputs
from trainwright.data.encoders.encoding import Encoding
from trainwright.data.encoders.pixel_statistics import Rule, fit_pixels
from trainwright.data.encoders.vocabulary import TextVocabulary
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.baselines.fit_baselines import fit_baselines
from trainwright.model.family import Scorer
from trainwright.predictor.bundle import (
    MANIFEST,
    add_metrics,
    bundle_kinds,
    needed_files,
    read_bundle,
    read_description,
    write_bundle,
)
from trainwright.predictor.bundle_files import Description, describe_model
from trainwright.predictor.calibration import Calibration
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
    from trainwright.contract.sections.data.split import RandomSplit

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
    (bundle / "other.pickle").write_bytes(b"")
    with pytest.raises(Mistake) as raised:
        read_bundle(bundle)
    text = str(raised.value)
    assert "target.json is missing" in text
    assert "other.pickle does not belong" in text


def test_a_link_is_not_followed(bundle: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere.json"
    (bundle / "target.json").rename(moved)
    (bundle / "target.json").symlink_to(moved)
    with pytest.raises(Mistake, match=r"target\.json is missing"):
        read_bundle(bundle)


def test_a_file_of_another_size_is_not_read(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is far larger would take hours to hash."""
    hashed: list[str] = []
    monkeypatch.setattr(
        "trainwright.predictor.bundle_files.hash_file", lambda path: hashed.append(path.name) or ""
    )
    with (bundle / "linear.json").open("a") as stream:
        stream.write(" ")
    with pytest.raises(Mistake, match=r"linear\.json is not the file that was written"):
        read_bundle(bundle)
    assert "target.json" in hashed
    assert "linear.json" not in hashed


def test_a_manifest_beyond_a_lower_limit_is_refused(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainwright.predictor.bundle._MOST_MANIFEST_BYTES", 100)
    with pytest.raises(Mistake, match=r"its bundle\.json is too large"):
        read_bundle(bundle)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 5}, "format 1, 2, 3, 4"),
        ({"kind": "pickle"}, "its kind is 'pickle'"),
        ({"files": {"../target.json": {}}}, "does not list the files"),
        ({"files": None}, "does not list the files"),
    ],
)
def test_a_strange_manifest_is_refused(bundle: Path, change: dict[str, object], words: str) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(Mistake, match=words):
        read_bundle(bundle)


@pytest.mark.parametrize("text", ["", "[]", "{", "NaN", "[" * 1000])
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
    endings = {Path(name).suffix for kind in bundle_kinds() for name in needed_files(kind)}
    assert endings == {".json", ".txt", ".npz", ".safetensors"}


@dataclass(frozen=True)
class _WithMore:
    """A scorer that writes more files than its kind needs."""

    inner: Scorer
    kind: str = "linear"

    def score(self, inputs: Inputs) -> Floats:
        return self.inner.score(inputs)

    def write(self, folder: Path) -> None:
        self.inner.write(folder)
        (folder / "adapter").mkdir()
        (folder / "adapter" / "notes.json").write_text("{}")


def test_a_bundle_lists_any_files(predictor: Predictor, tmp_path: Path) -> None:
    more = Predictor(predictor.features, predictor.target, _WithMore(predictor.scorer))
    bundle = tmp_path / "bundle"
    write_bundle(more, bundle, None)
    assert "adapter/notes.json" in read_json(bundle / MANIFEST)["files"]
    assert read_bundle(bundle).predict(ROWS).equals(predictor.predict(ROWS))
    (bundle / "adapter" / "notes.json").write_text("[]")
    with pytest.raises(Mistake, match=r"notes\.json is not the file that was written"):
        read_bundle(bundle)
    (bundle / "adapter" / "notes.json").unlink()
    with pytest.raises(Mistake, match=r"adapter/notes\.json is missing"):
        read_bundle(bundle)


def test_a_linked_folder_is_not_followed(predictor: Predictor, tmp_path: Path) -> None:
    more = Predictor(predictor.features, predictor.target, _WithMore(predictor.scorer))
    bundle = tmp_path / "bundle"
    write_bundle(more, bundle, None)
    (bundle / "adapter").rename(tmp_path / "adapter")
    (bundle / "adapter").symlink_to(tmp_path / "adapter")
    with pytest.raises(Mistake, match=r"adapter/notes\.json is missing"):
        read_bundle(bundle)


def test_a_bundle_of_the_first_format_is_read(bundle: Path, predictor: Predictor) -> None:
    manifest = read_json(bundle / MANIFEST)
    (bundle / MANIFEST).write_text(json.dumps({**manifest, "format": 1}))
    assert read_bundle(bundle).predict(ROWS).equals(predictor.predict(ROWS))
    assert not read_description(bundle)


@pytest.fixture(scope="module")
def described(prepared: Prepared, predictor: Predictor) -> Description:
    return describe_model(predictor, prepared, "c" * 64, 0)


def test_the_description_comes_back(
    prepared: Prepared, predictor: Predictor, described: Description, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    write_bundle(predictor, bundle, {"run": "x-1"}, described)
    add_metrics(bundle, {"metrics": {"roc_auc": {"value": 0.5}}})
    found = read_description(bundle)
    assert found == replace(described, metrics={"metrics": {"roc_auc": {"value": 0.5}}})
    assert found.data_version == prepared.version
    assert found.libraries["numpy"] == np.__version__
    assert read_bundle(bundle).predict(ROWS).equals(predictor.predict(ROWS))
    (bundle / "profile.json").write_text("{}")
    with pytest.raises(Mistake, match=r"profile\.json is not the file"):
        read_description(bundle)


@pytest.mark.parametrize(
    ("file", "value"),
    [
        ("signature.json", []),
        ("signature.json", {"columns": {"age": "numeric"}}),
        ("signature.json", {"columns": ["age"]}),
        ("signature.json", {"columns": [{"name": "age"}]}),
        ("signature.json", {"columns": [{"name": ["age"], "type": "numeric"}]}),
        ("profile.json", [1]),
        ("bundle.json", {"libraries": [1]}),
        ("bundle.json", {"libraries": "none"}),
        ("bundle.json", {"metrics": 5}),
    ],
)
def test_a_wrong_description_whose_hashes_fit_is_named(
    file: str, value: object, predictor: Predictor, described: Description, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    write_bundle(predictor, bundle, None, described)
    manifest = read_json(bundle / MANIFEST)
    if isinstance(value, dict) and file == MANIFEST:
        manifest.update(value)
    else:
        data = json.dumps(value).encode()
        (bundle / file).write_bytes(data)
        manifest["files"][file] = {"sha256": hash_bytes(data), "size_bytes": len(data)}
    (bundle / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(DamagedFile, match=file) as error:
        read_description(bundle)
    assert error.value.exit_code == 13


def test_the_signature_names_type_example_and_missing_values(described: Description) -> None:
    by_name = {one["name"]: one for one in described.signature}
    assert (by_name["age"]["type"], by_name["age"]["nullable"]) == ("numeric", True)
    assert 30 < by_name["age"]["example"] < 50
    assert (by_name["city"]["type"], by_name["city"]["nullable"]) == ("categorical", False)
    assert by_name["city"]["example"] in ("Bern", "Rome")


def test_the_profile_is_that_of_the_training_rows(
    prepared: Prepared, predictor: Predictor, described: Description
) -> None:
    columns = {one["name"]: one for one in described.profile["training"]["columns"]}
    frame = prepared.train.frame
    missing = frame["age"].null_count() / frame.height
    assert columns["age"]["missing_share"] == pytest.approx(missing, rel=1e-5)
    median = float(frame["age"].drop_nulls().median())
    assert columns["age"]["quantiles"]["0.5"] == pytest.approx(median, rel=1e-5)
    share = float((frame["city"] == "Rome").mean())
    assert columns["city"]["categories"]["Rome"] == pytest.approx(share, rel=1e-5)
    said = described.profile["predictions"]
    scores = predictor.score_part(prepared.validation)
    assert said["rows"] == len(prepared.validation)
    assert said["mean_probabilities"]["yes"] == pytest.approx(scores[:, 1].mean(), rel=1e-5)


def test_the_profile_of_predictions_is_decided_by_the_threshold(
    prepared: Prepared, predictor: Predictor
) -> None:
    scores = predictor.score_part(prepared.validation)
    threshold = float(np.quantile(scores[:, 1], 0.9))
    other = replace(predictor, calibration=Calibration(threshold=threshold))
    said = describe_model(other, prepared, "", 0).profile["predictions"]
    share = float((scores[:, 1] >= threshold).mean())
    assert 0 < share < 0.3 < float((scores[:, 1] >= 0.5).mean())
    assert said["shares"]["yes"] == pytest.approx(share, rel=1e-5)


def test_no_value_of_few_rows_stands_in_the_profile(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    rows = 400
    income = generator.normal(50_000, 9_000, rows).round()
    income[:3] = 98_765_432
    job = np.where(generator.random(rows) < 0.5, "nurse", "cook").astype(object)
    job[:4] = "astronaut"
    job[4:24] = "https://me:hunter22@db.example.org/x"
    label = np.where(income + generator.normal(0, 9_000, rows) > 50_000, "yes", "no")
    pl.DataFrame({"income": income, "job": list(job), "label": label}).write_csv(
        tmp_path / "rows.csv"
    )
    section = TableData(
        path="rows.csv",
        split=StratifiedSplit(kind="stratified"),
        features=Features(numeric="none", impute="none"),
    )
    prepared = prepare_table(read_table(section, tmp_path), section, "classification", 0)
    assert "astronaut" in prepared.train.frame["job"].to_list()
    assert prepared.train.frame["income"].max() == 98_765_432
    made = describe_model(fit_baselines(prepared).dummy, prepared, "", 0)
    text = json.dumps(made.to_json())
    assert "astronaut" not in text
    assert "hunter22" not in text
    assert "nurse" in text
    (column,) = [c for c in made.profile["training"]["columns"] if c["name"] == "income"]
    assert max(column["quantiles"].values()) < 100_000
    (jobs,) = [c for c in made.profile["training"]["columns"] if c["name"] == "job"]
    assert jobs["other_share"] > 0
    assert sum(jobs["categories"].values()) + jobs["other_share"] == pytest.approx(1)


@pytest.mark.parametrize("rows", [0, 1, 9, 10, 11, 99, 100, 1000])
def test_a_quantile_has_five_rows_on_each_side(rows: int) -> None:
    values = np.arange(rows, dtype=np.float64)
    for level, value in safe_quantiles(values).items():
        assert 0 < float(level) < 1
        assert (values <= value).sum() >= 5
        assert (values >= value).sum() >= 5
    assert bool(safe_quantiles(values)) == (rows >= 10)


def test_rows_that_break_the_signature_get_one_error_with_all_places(predictor: Predictor) -> None:
    with pytest.raises(DataMistake) as caught:
        predictor.predict_frame(pl.DataFrame({"age": ["30", "abc"]}), "new.csv")
    assert [problem.path for problem in caught.value.problems] == ["age", "city"]
    assert all("new.csv" in str(problem.place) for problem in caught.value.problems)
    assert all(problem.fix for problem in caught.value.problems)


def _of_inputs(prepared: Prepared, inputs: Inputs, features: Encoding) -> Prepared:
    count = len(inputs)
    nothing = prepared.validation
    empty = replace(nothing, rows=nothing.rows[:0])
    rows = np.arange(count)
    part = replace(prepared.train, inputs=inputs, target=np.ones(count), rows=rows, units=rows)
    return replace(prepared, train=part, validation=empty, features=features)


def test_the_profile_of_images_is_their_brightness(
    prepared: Prepared, predictor: Predictor
) -> None:
    pixels = np.repeat(np.arange(100, dtype=np.uint8), 2 * 4 * 4).reshape(200, 1, 4, 4)
    images = ImageInputs.of(pixels)
    features = fit_pixels(images, Rule((4, 4), "grey", "stretch", "box", 100))
    made = describe_model(predictor, _of_inputs(prepared, images, features), "", 0)
    found = made.profile["training"]
    assert found["size"] == [1, 4, 4]
    assert found["brightness"]["0.5"] == pytest.approx(49.5)
    assert set(found["contrast"].values()) == {0.0}
    assert made.signature[0]["type"] == "uint8 [N, 1, 4, 4]"


def test_the_profile_of_texts_is_their_lengths_and_unknown_characters(
    prepared: Prepared, predictor: Predictor
) -> None:
    vocabulary = TextVocabulary("characters", "abcd")
    tokens = vocabulary.encode("abcx" * 100)
    starts = np.arange(0, 400, 10)
    inputs = TokenInputs(tokens, starts, np.full(40, 10), documents=starts)
    made = describe_model(predictor, _of_inputs(prepared, inputs, vocabulary), "", 0)
    found = made.profile["training"]
    assert (found["documents"], found["unknown_share"]) == (40, 0.25)
    assert set(found["document_tokens"].values()) == {10.0}
    assert made.signature[0]["type"] == "text of characters"
