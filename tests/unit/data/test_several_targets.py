"""Several targets of a row: numbers, labels in columns, and labels in one column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.core.errors import DataMistake
from trainwright.data.audit.audit_result import AuditResult
from trainwright.data.audit.run_audit import audit_each
from trainwright.data.columns.label_set import LabelSet, fit_label_set, label_lists
from trainwright.data.columns.several_targets import SeveralNumbers, fit_several_numbers
from trainwright.data.columns.target import encode_new, target_from_json

FRAME = pl.DataFrame({"a": [1.0, 2.0, 6.0], "b": [10.0, 10.0, 40.0]})
FLAGS = pl.DataFrame({"sport": ["1", "0", "true"], "music": ["no", "Yes", "FALSE"]})
LISTS = pl.DataFrame({"tags": ["sport; music", "music", None, "news;;sport"]})


def numbers() -> SeveralNumbers:
    return fit_several_numbers(FRAME, ("a", "b"))


def listed(empty: Any = "none") -> LabelSet:
    return fit_label_set(LISTS.drop_nulls(), ("tags",), ";", empty)


def test_numbers_are_encoded_side_by_side_with_their_means_and_deviations() -> None:
    target = numbers()
    np.testing.assert_array_equal(target.encode(target.cells(FRAME)), FRAME.to_numpy())
    np.testing.assert_allclose(target.means, FRAME.to_numpy().mean(axis=0))
    np.testing.assert_allclose(target.deviations, FRAME.to_numpy().std(axis=0))
    assert target.outputs == 2
    assert [one.column for one in target.singles] == ["a", "b"]


def test_words_among_numbers_are_refused_with_their_column() -> None:
    words = pl.DataFrame({"a": ["1", "x"], "b": ["2", "y"]})
    with pytest.raises(DataMistake) as caught:
        numbers().encode(numbers().cells(words))
    assert [one.path for one in caught.value.problems] == ["a", "b"]


def test_labels_in_columns_are_yes_or_no_in_any_case() -> None:
    target = fit_label_set(FLAGS, ("sport", "music"), "", "missing")
    found = target.encode(target.cells(FLAGS))
    np.testing.assert_array_equal(found, [[1, 0], [0, 1], [1, 0]])
    np.testing.assert_allclose(target.shares, [2 / 3, 1 / 3])


def test_labels_in_one_column_are_those_between_separators() -> None:
    target = listed()
    assert target.names == ("music", "news", "sport")
    found = target.encode(target.cells(LISTS))
    np.testing.assert_array_equal(found, [[1, 0, 1], [1, 0, 0], [0, 0, 0], [0, 1, 1]])
    assert label_lists(pl.Series(["", " a ;; "]), ";").to_list() == [[], ["a"]]


def test_an_empty_cell_is_missing_unless_it_says_that_there_is_no_label() -> None:
    target = listed("missing")
    with pytest.raises(DataMistake, match="nothing of their labels"):
        target.encode(target.cells(LISTS))


def test_a_label_unseen_in_training_is_refused_by_its_name() -> None:
    target = listed()
    with pytest.raises(DataMistake, match="arts") as caught:
        encode_new(target, pl.Series("tags", ["music", "arts;sport"]))
    assert "row 2" in caught.value.problems[0].fix


def test_a_cell_that_is_neither_is_refused_by_its_row() -> None:
    target = fit_label_set(FLAGS, ("sport", "music"), "", "missing")
    odd = pl.DataFrame({"sport": ["1", "perhaps"], "music": ["0", "1"]})
    with pytest.raises(DataMistake, match="perhaps") as caught:
        encode_new(target, target.cells(odd))
    assert "row 2" in caught.value.problems[0].fix


def test_a_label_that_every_row_has_teaches_nothing() -> None:
    same = FLAGS.with_columns(pl.lit("1").alias("music"))
    with pytest.raises(DataMistake, match="music: the same in every training row"):
        fit_label_set(same, ("sport", "music"), "", "missing")


@pytest.mark.parametrize(
    "target",
    [numbers(), listed(), fit_label_set(FLAGS, ("sport", "music"), "", "missing")],
    ids=["numbers", "lists", "flags"],
)
def test_what_is_written_is_read_again(target: SeveralNumbers | LabelSet) -> None:
    again = target_from_json(target.to_json())
    assert again == target
    again.check()
    assert again.is_same(target)
    scores = np.random.default_rng(0).random((4, target.outputs))
    truth = np.ones((4, target.outputs))
    stored = pl.DataFrame([*target.truths(truth), *target.predictions(scores)])
    read_truth, read_scores = target.stored(stored)
    np.testing.assert_array_equal(read_truth, truth)
    np.testing.assert_array_equal(read_scores, scores)


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ["a", "a"]},
        {"columns": ["a"]},
        {"means": [1.0]},
        {"deviations": [0.0, 1.0]},
        {"means": [float("nan"), 0.0]},
    ],
    ids=str,
)
def test_impossible_numbers_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"target\.json"):
        target_from_json({**numbers().to_json(), **wrong}).check()


@pytest.mark.parametrize(
    "wrong", [{"names": ["a", "a", "b"]}, {"shares": [0.5]}, {"shares": [2.0, 0.1, 0.1]}], ids=str
)
def test_impossible_labels_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"target\.json"):
        target_from_json({**listed().to_json(), **wrong}).check()


def test_predicted_labels_are_those_from_one_half_on() -> None:
    columns = listed().predictions(np.array([[0.5, 0.49, 1.0]]))
    row = pl.DataFrame(columns).row(0, named=True)
    assert [row[f"prediction_{name}"] for name in ("music", "news", "sport")] == [1, 0, 1]
    assert row["probability_news"] == 0.49


def test_a_test_of_the_audit_is_made_of_each_target() -> None:
    def test(sides: Any) -> list[AuditResult]:
        verdict = "leak" if sides == "b side" else "clean"
        return [AuditResult("tells the target", verdict, 0.5, f"{sides} looked at")]

    found = audit_each(test, {"a": "a side", "b": "b side"})  # type: ignore[dict-item]
    assert [one.message for one in found] == ["target 'b': b side looked at"]
    (only,) = audit_each(test, {"a": "a side", "c": "c side"})  # type: ignore[dict-item]
    assert only.verdict == "clean"


@pytest.mark.slow
def test_the_audit_names_the_target_that_a_column_tells(tmp_path: Path) -> None:
    import trainwright as tw

    draw = np.random.default_rng(0)
    a, b = draw.normal(size=200), draw.normal(size=200)
    rows = pl.DataFrame({"x": draw.normal(size=200), "copy": 2 * b, "a": a, "b": b})
    rows.write_csv(tmp_path / "rows.csv")
    data = {"path": str(tmp_path / "rows.csv"), "target": ["a", "b"], "quality": {"look": "quick"}}
    contract = {"data": data, "model": {"kind": "linear"}, "metric": {"resamples": 100}}
    run = tw.train(contract, runs=tmp_path / "runs")
    said = " ".join(str(one) for one in (run.folder / "preflight.json").read_text().splitlines())
    assert "target 'b': 'copy'" in said
    assert "target 'a': 'copy'" not in said
    assert run.verdict.status == "invalid"
