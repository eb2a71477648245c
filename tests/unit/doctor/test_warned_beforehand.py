"""What no training can mend is said before it: clauses without test rows, trees without a split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import trainwright as tw
from command import command, inside
from made_pictures import write_folder

SPLIT = "data: {path: rows.csv, target: y, split: {kind: stratified%s}}\n"
HEAD = "task: classification\n"
TREES = "model: {kind: boosting}\n"
PRECISION = "metric: {name: average_precision}\n"


def found(folder: Path, kind: str, contract: str, counts: tuple[int, int]) -> list[str]:
    """The messages of this kind of finding that `check` has for rows of two classes."""
    random = np.random.default_rng(0)
    labels = random.permutation(np.repeat(["a", "b"], counts))
    frame = pl.DataFrame({"x": random.normal(size=len(labels)), "y": labels})
    frame.write_csv(folder / "rows.csv")
    return checked(folder, kind, contract)


def checked(folder: Path, kind: str, contract: str) -> list[str]:
    """The messages of this kind of finding that `check` has for data that lies there."""
    (folder / "contract.yaml").write_text(contract)
    with inside(folder):
        ran = command("check", "contract.yaml", "--json")
    return [one["message"] for one in json.loads(ran.out)["findings"] if one["kind"] == kind]


@pytest.mark.extended
def test_a_clause_with_too_few_test_rows_of_its_class(tmp_path: Path) -> None:
    counts = (988, 12)
    written = HEAD + SPLIT % "" + TREES + PRECISION
    (message,) = found(tmp_path, "undecidable", written, counts)
    assert message == (
        "the clause on average_precision cannot be decided: 2 test rows of class 'b', and an "
        "interval needs 5; data.split.folds tests every row"
    )
    folded = HEAD + SPLIT % ", folds: 5" + TREES + PRECISION
    assert found(tmp_path, "undecidable", folded, counts) == []
    (message,) = found(tmp_path, "undecidable", folded.replace("folds: 5", "folds: 3"), (900, 4))
    assert message.endswith(
        "4 test rows of class 'b', and an interval needs 5; give more rows of class 'b'"
    )
    accuracy = written.replace("average_precision", "accuracy")
    assert found(tmp_path, "undecidable", accuracy, counts) == []


def test_room_on_the_disk_is_worth_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = HEAD + SPLIT % "" + TREES + PRECISION
    assert found(tmp_path, "disk", written, (60, 60)) == []
    monkeypatch.setattr("trainwright.doctor.preflight._SPARE_BYTES", 2**62)
    (message,) = checked(tmp_path, "disk", written)
    assert "needed" in message


@pytest.mark.extended
def test_folds_are_advised_only_where_they_are_possible_and_help(tmp_path: Path) -> None:
    written = HEAD + SPLIT % "" + TREES + PRECISION
    (message,) = found(tmp_path, "undecidable", written, (900, 4))
    assert message.endswith("an interval needs 5; give more rows of class 'b'")
    seeds = f"{written}training: {{seeds: 2}}\n"
    (message,) = found(tmp_path, "undecidable", seeds, (988, 12))
    assert message.endswith("an interval needs 5; give more test rows of class 'b'")
    labels = pl.Series("y", ["b" if at % 83 == 0 else "a" for at in range(1000)])
    rows = pl.read_csv(tmp_path / "rows.csv").with_columns(labels)
    rows[:900].write_csv(tmp_path / "train.csv")
    rows[900:].write_csv(tmp_path / "apart.csv")
    part = [
        "test" if at % 5 == 0 else "train" if at % 5 < 4 else "validation" for at in range(1000)
    ]
    rows.with_columns(pl.Series("part", part)).write_csv(tmp_path / "parts.csv")
    for data in (
        "train_path: train.csv, test_path: apart.csv, split: {kind: stratified}",
        "train_path: train.csv, val_path: apart.csv, split: {kind: stratified}",
        "path: parts.csv, split: {kind: column, column: part}",
    ):
        given = f"{HEAD}data: {{{data}, target: y}}\n{TREES}{PRECISION}"
        (message,) = checked(tmp_path, "undecidable", given)
        assert message.endswith("an interval needs 5; give more test rows of class 'b'"), data


def test_folds_are_not_advised_to_images_that_stand_apart(tmp_path: Path) -> None:
    write_folder(tmp_path / "apart/train", 30)
    write_folder(tmp_path / "apart/test", 3)
    contract = "data: {kind: images, path: %s}\nmodel: {kind: resnet}\nmetric: {name: accuracy}\n"
    (message,) = checked(tmp_path, "undecidable", contract % "apart")
    assert message.endswith("3 test rows, and an interval needs 5; give more test rows")
    write_folder(tmp_path / "together", 12)
    (message,) = checked(tmp_path, "undecidable", contract % "together")
    assert message.endswith("and an interval needs 5; data.split.folds tests every row")


def test_a_script_s_own_model_has_no_folds(tmp_path: Path) -> None:
    rows = pl.DataFrame({"x": range(1000), "y": ["b" if at < 12 else "a" for at in range(1000)]})
    sections = {
        "data": {"path": "frame://rows", "target": "y", "split": {"kind": "stratified"}},
        "model": {"kind": "linear"},
        "metric": {"name": "average_precision", "resamples": 100},
    }
    data = tw.prepare(sections, frames={"rows": rows})
    judged = tw.judge(lambda x: np.full((len(x), 2), 0.5), data, runs=tmp_path, name="own").result
    findings = json.loads(judged.folder.preflight.read_text())
    (message,) = (one["message"] for one in findings if one["kind"] == "undecidable")
    assert message.endswith("an interval needs 5; give more test rows of class 'b'")


def test_fewer_training_rows_than_two_leaves_need(tmp_path: Path) -> None:
    written = HEAD + SPLIT % ", folds: 5" + "model: {kind: boosting, min_data_in_leaf: 20}\n"
    (message,) = found(tmp_path, "unsplit_trees", written, (25, 25))
    assert message == (
        "the trees cannot have a split: each leaf needs 20 training rows (model.min_data_in_leaf), "
        "and there are 34 in the smallest fold, too few for two; lower it, or write model: "
        "{kind: linear}"
    )
    for model in ("boosting, min_data_in_leaf: 17", "boosting", "linear"):
        other = written.replace("boosting, min_data_in_leaf: 20", model)
        assert found(tmp_path, "unsplit_trees", other, (25, 25)) == []
