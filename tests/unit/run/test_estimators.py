"""Classifiers and regressors for scikit-learn."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import check_estimators_pickle, estimator_checks_generator

import trainwright as tw
from guide import GUIDE
from trainwright.tracking.run_list import list_runs

TREES = {"kind": "boosting", "max_trees": 30}
NOT_RUN = {
    "check_array_api_input": "scikit-learn skips it unless `SCIPY_ARRAY_API` is set",
}
"""Of scikit-learn's checks those that are not run, and why. None is expected to fail."""

Check = Callable[[Any], None]


def checks() -> list[Any]:
    made = []
    for kind in (tw.Classifier, tw.Regressor):
        for model in ("linear", TREES):
            name = model if isinstance(model, str) else model["kind"]
            for estimator, check in estimator_checks_generator(kind(model), mark=None):
                what = check.func.__name__  # type: ignore[union-attr]
                if what in NOT_RUN:
                    continue
                made.append(pytest.param(estimator, check, id=f"{kind.__name__}-{name}-{what}"))
    return made


@pytest.mark.extended
@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learn_finds_nothing_wrong(estimator: Any, check: Check) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


def test_the_checks_that_are_not_run_stand_in_the_guide() -> None:
    rows = (GUIDE / "scikit-learn.md").read_text().splitlines()
    named = {row.split("`")[1]: row for row in rows if row.startswith("| `check_")}
    assert named.keys() == NOT_RUN.keys()
    assert all(why in named[name] for name, why in NOT_RUN.items())


def people(rows: int = 80) -> tuple[pl.DataFrame, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    age = draw.normal(50, 10, size=rows)
    city = draw.choice(["Bern", "Lyon"], size=rows)
    frame = pl.DataFrame({"age": age, "city": city, "rooms": draw.integers(1, 4, size=rows)})
    return frame, np.where(age + 20 * (city == "Lyon") > 60, "yes", "no")


def test_arrays_and_frames_of_both_libraries_give_the_same_model() -> None:
    pd = pytest.importorskip("pandas")
    frame, bought = people()
    numbers = frame.select("age", "rooms")
    kinds = [numbers.to_numpy(), numbers, pd.DataFrame(numbers.to_dict(as_series=False))]
    fitted = [tw.Classifier("linear").fit(rows, bought) for rows in kinds]
    each = [one.predict_proba(rows) for one, rows in zip(fitted, kinds, strict=True)]
    np.testing.assert_array_equal(each[0], each[1])
    np.testing.assert_array_equal(each[0], each[2])
    assert [one.n_features_in_ for one in fitted] == [2, 2, 2]
    assert not hasattr(fitted[0], "feature_names_in_")
    assert list(fitted[1].feature_names_in_) == list(fitted[2].feature_names_in_)


def test_the_model_is_that_of_the_contract_on_the_same_rows(tmp_path: Path) -> None:
    frame, bought = people()
    one = tw.Classifier(TREES, metric="log_loss", runs=tmp_path / "a").fit(frame, bought)
    numeric = {"kind": "numeric"}
    data = {
        "train_path": "frame://rows",
        "test_path": "frame://none",
        "target": "target",
        "positive": "yes",
        "columns": {"age": numeric, "rooms": numeric},
        "split": {"kind": "stratified", "rare": "train", "validation": 0.15},
    }
    sections = {"data": data, "model": TREES, "metric": {"name": "log_loss"}}
    rows = frame.with_columns(target=pl.Series(bought))
    frames = {"rows": rows, "none": rows.clear()}
    prepared = tw.prepare({**sections, "task": "classification"}, frames=frames)
    other = tw.fit(prepared, runs=tmp_path / "b", progress=False)
    expected = other.predictor.predict(frame)["probability_yes"].to_numpy()
    np.testing.assert_array_equal(one.predict_proba(frame)[:, 1], expected)
    assert one.validation_score_ == other.score
    assert one.history_.equals(other.history)
    assert [run.state for run in list_runs(tmp_path / "a")] == ["fitted"]
    assert one.run_folder_.parent == tmp_path / "a"


def test_without_a_folder_for_runs_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one = tw.Classifier("linear").fit(*people())
    assert list(tmp_path.iterdir()) == []
    assert one.run_folder_ is None
    said = capsys.readouterr()
    assert said.out + said.err == ""


@pytest.mark.parametrize(
    "classes",
    [
        ["b", "a", "c"],
        [10, -1, 2],
        [5.0, 1.0, -2.0],
        ["1.0", "1", " 1"],
        ["NA", "none", "?"],
        [True, False, True],
        ["a", "a ", "A"],
    ],
    ids=str,
)
def test_classes_of_any_type_come_back_as_they_were(classes: list[Any]) -> None:
    x = np.repeat([[-10.0, 0.0], [0.0, 10.0], [10.0, 0.0]], 20, axis=0)
    x += np.random.default_rng(0).normal(size=x.shape)
    y = np.repeat(np.array(classes), 20)
    one = tw.Classifier("linear").fit(x, y)
    np.testing.assert_array_equal(one.classes_, np.unique(y))
    assert one.predict(x).dtype == y.dtype
    if len(set(classes)) == 3:
        np.testing.assert_array_equal(one.predict(x), y)
    np.testing.assert_allclose(one.predict_proba(x).sum(axis=1), 1)


@pytest.mark.parametrize("classes", [[0, 1], [9, 10], ["no", "yes"], ["b c", "a"]], ids=str)
def test_a_threshold_decides(classes: list[Any]) -> None:
    frame, bought = people()
    labels = np.array(classes)[(bought == "yes").astype(int)]
    one = tw.Classifier("linear", training={"threshold": 0.9}).fit(frame, labels)
    is_positive = one.predict_proba(frame)[:, 1] >= 0.9
    assert (is_positive != (one.predict_proba(frame)[:, 1] >= 0.5)).any()
    np.testing.assert_array_equal(one.predict(frame), one.classes_[is_positive.astype(int)])


def test_missing_cells_and_new_categories_are_predicted() -> None:
    frame, bought = people()
    one = tw.Classifier(TREES).fit(frame, bought)
    rows = {"age": [None, 40.0], "city": ["Oslo", None], "rooms": [1, None]}
    assert np.isfinite(one.predict_proba(pl.DataFrame(rows))).all()


def test_a_group_is_on_one_side(tmp_path: Path) -> None:
    frame, _ = people()
    groups = np.arange(80) // 4
    one = tw.Regressor("linear", runs=tmp_path).fit(frame, frame["age"] * 2, groups=groups)
    (run,) = tmp_path.iterdir()
    assert "kind: group" in (run / "contract.yaml").read_text()
    assert list(one.feature_names_in_) == ["age", "city", "rooms"]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        one.fit(frame, frame["age"], groups=groups[1:])


def test_groups_beside_a_split_are_refused() -> None:
    frame, bought = people()
    one = tw.Classifier("linear", data={"split": {"kind": "random", "validation": 0.2}})
    with pytest.raises(ValueError, match="both divide the rows"):
        one.fit(frame, bought, groups=np.arange(80) // 4)
    assert one.fit(frame, bought).n_features_in_ == 3


def test_keys_of_sections_are_parameters() -> None:
    one = tw.Classifier(TREES, data={"columns": {"x0": {"kind": "categorical"}}})
    assert one.get_params()["model__max_trees"] == 30
    assert one.get_params()["data__columns__x0__kind"] == "categorical"
    other = clone(one).set_params(model__num_leaves=4, data__columns__x1__kind="ignored")
    assert other.model == {**TREES, "num_leaves": 4}
    assert other.data["columns"].keys() == {"x0", "x1"}
    assert one.model == TREES
    assert clone(other).get_params() == other.get_params()
    assert tw.Regressor("linear").set_params(model__penalty=3).model == {
        "kind": "linear",
        "penalty": 3,
    }
    for wrong in ("nothing", "nothing__at_all", "name__first"):
        with pytest.raises(ValueError, match="Invalid parameter"):
            one.set_params(**{wrong: 1})


@pytest.mark.extended
def test_a_search_and_a_cross_validation_work() -> None:
    frame, bought = people()
    search = GridSearchCV(tw.Classifier("linear"), {"model__penalty": [1e-3, 1e6]}, cv=2)
    search.fit(frame, bought)
    assert search.best_params_ == {"model__penalty": 1e-3}
    scores = cross_val_score(tw.Regressor("linear"), frame, 3 * frame["age"].to_numpy(), cv=2)
    assert scores.min() > 0.9


def test_a_fitted_model_does_not_hold_its_rows() -> None:
    one = tw.Classifier("linear").fit(*people(2000))
    assert len(pickle.dumps(one)) < 2000 * 8


@pytest.mark.extended
@pytest.mark.torch
def test_a_network_is_an_estimator_too() -> None:
    pytest.importorskip("torch")
    frame, bought = people()
    short = {"num_epochs": 3}
    one = tw.Classifier("mlp", training=short, random_state=3).fit(frame, bought)
    again = clone(one).fit(frame, bought)
    np.testing.assert_array_equal(one.predict_proba(frame), again.predict_proba(frame))
    check_estimators_pickle("mlp", tw.Classifier("mlp", training=short))


def test_it_fits_outside_the_main_thread() -> None:
    fitted: list[Any] = []
    thread = threading.Thread(target=lambda: fitted.append(tw.Classifier("linear").fit(*people())))
    thread.start()
    thread.join()
    assert fitted[0].score(*people()) > 0.8


def test_mistakes_are_value_errors() -> None:
    frame, bought = people()
    with pytest.raises(ValueError, match=r"model\.num_leavs"):
        tw.Classifier({"kind": "boosting", "num_leavs": 3}).fit(frame, bought)
    with pytest.raises(ValueError, match="one class"):
        tw.Classifier().fit(frame, ["a"] * 80)
    one = tw.Classifier("linear")
    with pytest.raises(NotFittedError):
        one.predict(frame)
    one.fit(frame, bought)
    with pytest.raises(ValueError, match="feature names"):
        one.predict(frame.drop("city"))
    with pytest.raises(ValueError, match="age"):
        one.predict(frame.with_columns(age=pl.lit("old")))


def test_a_fit_without_test_rows_is_not_judged(tmp_path: Path) -> None:
    frame, bought = people()
    rows = frame.with_columns(bought=pl.Series(bought))
    data = {"train_path": "frame://rows", "test_path": "frame://none", "target": "bought"}
    sections = {"data": data, "model": {"kind": "linear"}}
    frames = {"rows": rows, "none": rows.clear()}
    prepared = tw.prepare(sections, frames=frames)
    fitted = tw.fit(prepared, runs=tmp_path / "runs", progress=False)
    with pytest.raises(tw.Mistake, match="no test rows"):
        tw.judge(fitted)
    with pytest.raises(tw.Mistake, match="no test rows"):
        tw.judge(lambda rows: np.full((len(rows), 2), 0.5), prepared)
    with pytest.raises(tw.Mistake, match="no test rows"):
        tw.train(sections, frames=frames, runs=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_interrupted_fit_without_a_folder_is_a_keyboard_interrupt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise tw.Interrupted("stopped by SIGINT")

    monkeypatch.setattr("trainwright.estimators.fit_data", stopped)
    with pytest.raises(KeyboardInterrupt):
        tw.Classifier("linear").fit(*people())
