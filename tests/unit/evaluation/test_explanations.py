"""Explanations find what the target was made of, and nothing else."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.metric import Metric
from trainwright.contract.sections.model.trees import Boosting
from trainwright.core.errors import NotAvailable
from trainwright.data.base.inputs import Floats, Inputs, TableInputs
from trainwright.data.encoders.column_origins import columns_of_origins, origins_of
from trainwright.data.prepare_table import prepare_table
from trainwright.data.read_table import read_table
from trainwright.data.types import Prepared
from trainwright.evaluation.explanations.contributions import contribution_frame, contributions_of
from trainwright.evaluation.explanations.explain_model import Effort, explain_model
from trainwright.evaluation.explanations.explanation import Explanation, PartialDependence
from trainwright.evaluation.explanations.permutation_importance import permuted
from trainwright.model.boosting.lightgbm_dataset import BoostingRows
from trainwright.model.boosting.lightgbm_fit import BoostingJob, fit_boosting
from trainwright.planner.plan import plan
from trainwright.planner.plan_facts import DeviceFacts
from trainwright.predictor.predictor import Predictor
from trainwright.report.format import NOTHING
from trainwright.report.sections.explanation_section import view_explanation

RMSE = Metric(name="rmse", target=1.0)


class Formula:
    """A scorer of the encoded columns: a weight for each number, and 1 for a code."""

    kind = "formula"

    def __init__(self, weights: Mapping[int, float], code: int = -1) -> None:
        self._weights = weights
        self._code = code

    def score(self, inputs: Inputs) -> Floats:
        table = TableInputs.of_kind(inputs)
        total = np.zeros(len(table))
        for at, weight in self._weights.items():
            total += weight * table.numeric[:, at]
        if self._code >= 0:
            total += table.categories[:, 0] == self._code
        return total[:, None]

    def write(self, folder: Path) -> None:
        raise NotImplementedError


def prepared(
    folder: Path, data: pl.DataFrame, more: str = "", task: str = "regression"
) -> Prepared:
    data.write_csv(folder / "rows.csv")
    contract = folder / "contract.yaml"
    contract.write_text(
        f"task: {task}\ndata:\n  path: rows.csv\n  target: y\n{more}model: {{kind: boosting}}\n"
    )
    document = read_contract(contract)
    raw = read_table(document.contract.data, folder)
    section = plan(document, raw.facts, DeviceFacts()).contract.data
    assert task in ("regression", "classification")
    return prepare_table(raw, section, task, 0)  # type: ignore[arg-type]


def code_of(rows: Prepared, category: str) -> int:
    return int(rows.table.vocabularies[0].encode(pl.Series([category]))[0])


def numbers(rows: int = 800) -> pl.DataFrame:
    draws = np.random.default_rng(0)
    a, b, noise = draws.normal(size=(3, rows))
    kind = draws.choice(["u", "v"], rows)
    y = 3 * a + b + (kind == "v") + 0.1 * draws.normal(size=rows)
    return pl.DataFrame({"a": a, "b": b, "noise": noise, "kind": kind, "y": y})


def test_the_loss_of_a_linear_formula_is_known(tmp_path: Path) -> None:
    """Permuting a of 3 a + b adds 2 * 9 Var(a) to the mean squared error of a perfect model."""
    rows = prepared(tmp_path, numbers())
    spread = [float(rows.train.frame[name].std()) for name in ("a", "b")]  # type: ignore[arg-type]
    names = rows.table.numeric_names
    weights = {names.index("a"): 3 * spread[0], names.index("b"): 1 * spread[1]}
    values = rows.validation.inputs.columns().numeric
    # In boosting's encoding numbers are as they were, in others scaled: the weights undo that.
    scale = float(np.std(values[:, names.index("a")]))
    weights = {at: weight / (scale if scale > 0 else 1) for at, weight in weights.items()}
    predictor = Predictor(rows.features, rows.target, Formula(weights))
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort(repeats=10))
    by_column = {one.column: one for one in found.importances}
    assert [one.column for one in found.importances[:2]] == ["a", "b"]
    assert by_column["a"].loss.low > 0
    assert not by_column["a"].includes_zero
    of_a = 3 * float(rows.validation.frame["a"].std())  # type: ignore[arg-type]
    expected = math.sqrt(found.value**2 + 2 * of_a**2) - found.value
    assert by_column["a"].loss.low < expected < by_column["a"].loss.high


def test_a_column_that_is_not_read_loses_nothing(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    at = rows.table.numeric_names.index("a")
    predictor = Predictor(rows.features, rows.target, Formula({at: 3.0}, code_of(rows, "v")))
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort())
    by_column = {one.column: one for one in found.importances}
    noise = by_column["noise"]
    assert (noise.loss.value, noise.loss.low, noise.loss.high) == (0, 0, 0)
    assert noise.includes_zero
    assert not by_column["kind"].includes_zero
    assert math.isnan(noise.mean_contribution)


def test_a_metric_to_maximise_loses_too(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    at = rows.table.numeric_names.index("a")
    predictor = Predictor(rows.features, rows.target, Formula({at: 3.0}))
    r2 = Metric(name="r2", target=0.5)
    found = explain_model(predictor, rows.validation, r2, 0, Effort())
    assert found.importances[0].column == "a"
    assert found.importances[0].loss.low > 0.5


def test_what_is_derived_from_a_column_moves_with_it(tmp_path: Path) -> None:
    """A date with its parts, a column with its past: one input each."""
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 12, 31), eager=True).alias("day")
    draws = np.random.default_rng(1)
    data = pl.DataFrame(
        {"day": days, "sold": draws.normal(10, 3, len(days)), "y": draws.normal(size=len(days))}
    )
    more = (
        "  split: {kind: time, column: day}\n"
        "  features: {history: {time: day, columns: [sold, y], lags: [1, 7]}}\n"
    )
    rows = prepared(tmp_path, data, more)
    columns = columns_of_origins(rows.table)
    assert columns["sold"] == ("sold", "sold (lag 1)", "sold (lag 7)")
    assert columns["y"] == ("y (lag 1)", "y (lag 7)")
    origins = origins_of(rows.table)
    assert len(origins) == len(rows.table.numeric_names) + len(rows.table.categorical_names)
    for name, origin in zip(rows.table.numeric_names, origins, strict=False):
        assert name.startswith(origin)
    part = rows.validation
    moved = permuted(part.frame, columns["sold"], part.units, np.random.default_rng(0))
    places = [part.frame["sold"].to_list().index(value) for value in moved["sold"]]
    assert moved["sold (lag 7)"].to_list() == part.frame["sold (lag 7)"].gather(places).to_list()
    assert moved["sold"].to_list() != part.frame["sold"].to_list()
    assert moved["y (lag 1)"].equals(part.frame["y (lag 1)"])


def test_a_column_of_the_unit_is_permuted_among_units() -> None:
    units = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 3])
    frame = pl.DataFrame({"town": [f"t{unit}" for unit in units], "visit": range(10)})
    draws = np.random.default_rng(2)
    moved = permuted(frame, ["town"], units, draws)
    assert (
        moved.group_by(pl.Series("unit", units)).agg(pl.col("town").n_unique())["town"].max() == 1
    )
    assert not moved["town"].equals(frame["town"])
    visits = permuted(frame, ["visit"], units, draws)
    assert sorted(visits["visit"]) == list(range(10))


def boosted(rows: Prepared, outputs: int) -> Predictor:
    some = BoostingRows(rows.train.inputs, rows.train.target)
    none = BoostingRows(rows.train.inputs.take(np.zeros(0, np.int64)), rows.train.target[:0])
    section = Boosting.model_validate({"kind": "boosting", "max_trees": 20})
    job = BoostingJob(section, some, none, outputs=outputs, seed=0, threads=1)
    return Predictor(rows.features, rows.target, fit_boosting(job))


def classes(names: tuple[str, ...], positive: str = "") -> tuple[pl.DataFrame, str]:
    data = numbers()
    ranks = data["y"].rank("ordinal") * len(names) // (data.height + 1)
    labels = ranks.cast(pl.Int64).replace_strict(list(range(len(names))), list(names))
    said = f'  positive: "{positive}"\n' if positive else ""
    return data.with_columns(labels.alias("y")), said


@pytest.mark.parametrize("names", [(), ("no", "yes"), ("a", "b", "c")], ids=str)
def test_contributions_add_up_to_the_raw_score(tmp_path: Path, names: tuple[str, ...]) -> None:
    data, said = classes(names) if names else (numbers(), "")
    if len(names) == 2:
        said = '  positive: "yes"\n'
    task = "classification" if names else "regression"
    rows = prepared(tmp_path, data, said, task)
    predictor = boosted(rows, max(1, len(names)))
    values = contributions_of(predictor, rows.test.frame)
    total = values.sum(axis=2)
    scores = predictor.score(rows.test.inputs)
    if not names:
        np.testing.assert_allclose(total, scores, rtol=1e-6)
    elif len(names) == 2:
        np.testing.assert_allclose(1 / (1 + np.exp(-total[:, 0])), scores[:, 1], rtol=1e-6)
    else:
        shares = np.exp(total) / np.exp(total).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, scores, rtol=1e-6)
    found = explain_model(predictor, rows.validation, _metric(task), 0, Effort(repeats=2))
    means = {one.column: one.mean_contribution for one in found.importances}
    assert means["a"] == max(means.values())


def _metric(task: str) -> Metric:
    return RMSE if task == "regression" else Metric(name="log_loss", target=1.0)


def test_contributions_point_to_the_positive_class(tmp_path: Path) -> None:
    data, said = classes(("no", "yes"), positive="no")
    rows = prepared(tmp_path, data, said, "classification")
    frame = contribution_frame(boosted(rows, 2), rows.test.frame)
    total = frame.select(pl.sum_horizontal(pl.exclude("prediction"))).to_series()
    assert ((total > 0) == (frame["prediction"] == "no")).all()


def test_terms_of_a_text_are_one_column(tmp_path: Path) -> None:
    """Sparse inputs give sparse contributions."""
    draws = np.random.default_rng(3)
    words = np.array([f"word{number}" for number in range(60)])
    texts = [" ".join(draws.choice(words, 12)) for _ in range(400)]
    y = [float("word7" in text.split()) * 5 + draws.normal() for text in texts]
    data = pl.DataFrame({"said": texts, "a": draws.normal(size=400), "y": y})
    rows = prepared(tmp_path, data, "  columns: {said: {kind: text}}\n")
    predictor = boosted(rows, 1)
    values = contributions_of(predictor, rows.test.frame)
    assert list(columns_of_origins(rows.table)) == ["said", "a"]
    assert values.shape == (len(rows.test), 1, 3)
    np.testing.assert_allclose(values.sum(axis=2), predictor.score(rows.test.inputs), rtol=1e-5)


def test_only_trees_have_contributions(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    predictor = Predictor(rows.features, rows.target, Formula({0: 1.0}))
    with pytest.raises(NotAvailable, match="those of trees"):
        contribution_frame(predictor, rows.test.frame)


def test_partial_dependence_of_a_formula_is_its_line(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    at = rows.table.numeric_names.index("a")
    predictor = Predictor(rows.features, rows.target, Formula({at: 2.0}, code_of(rows, "v")))
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort())
    by_column = {one.column: one for one in found.dependences}
    line = by_column["a"]
    slopes = np.diff([row[0] for row in line.means]) / np.diff(line.numbers)
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-3)
    assert slopes[0] > 0
    assert len(line.numbers) == 20
    kind = by_column["kind"]
    assert set(kind.values) == {"u", "v"}
    means = [row[0] for row in kind.means]
    assert abs(means[0] - means[1]) == pytest.approx(1.0)


def test_a_column_may_be_called_count(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers().rename({"kind": "count"}))
    predictor = Predictor(rows.features, rows.target, Formula({}, code_of(rows, "v")))
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort())
    assert {one.column: set(one.values) for one in found.dependences}["count"] == {"u", "v"}


def test_too_little_time_is_said(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())

    class Slow(Formula):
        def score(self, inputs: Inputs) -> Floats:
            time.sleep(0.02)
            return super().score(inputs)

    predictor = Predictor(rows.features, rows.target, Slow({0: 1.0}))
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort(seconds=0.01))
    assert found.repeats == 1
    assert len(found.dependences) == 1
    (note,) = found.notes
    assert "1 of 5 repeats" in note


def test_an_explanation_is_read_back(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    predictor = boosted(rows, 1)
    found = explain_model(predictor, rows.validation, RMSE, 0, Effort(repeats=2))
    text = json.dumps(found.to_json(), allow_nan=False)
    assert Explanation.from_json(json.loads(text)) == found


def test_an_undefined_metric_is_written_as_null(tmp_path: Path) -> None:
    data, said = classes(("no", "yes"), positive="yes")
    rows = prepared(tmp_path, data, said, "classification")
    part = replace(rows.validation, target=np.ones_like(rows.validation.target))
    section = Metric(name="roc_auc", target=0.5)
    found = explain_model(boosted(rows, 2), part, section, 0, Effort(repeats=1))
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["value"] is None
    again = Explanation.from_json(json.loads(text))
    assert math.isnan(again.value)
    assert all(one.includes_zero for one in again.importances)
    assert all(row.range == NOTHING for row in view_explanation(again).rows)


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    rows = prepared(tmp_path, numbers())
    predictor = boosted(rows, 1)
    effort = Effort(repeats=2)
    first, second = (
        explain_model(predictor, rows.validation, RMSE, 3, effort).importances for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    "change", [{"values": ["1"]}, {"numbers": [1.0]}, {"means": [[1.0, 2.0], [1.0, 2.0]]}], ids=str
)
def test_lengths_that_do_not_fit_are_refused(change: dict[str, object]) -> None:
    json = PartialDependence("a", ("1", "2"), (1.0, 2.0), ("y",), ((0.0,), (1.0,))).to_json()
    with pytest.raises(ValueError, match="lengths differ"):
        PartialDependence.from_json({**json, **change})
