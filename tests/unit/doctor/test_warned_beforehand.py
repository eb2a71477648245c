"""What no training can mend is said before it: clauses without test rows, trees without a split."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl

from command import command, inside

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
    (folder / "contract.yaml").write_text(contract)
    with inside(folder):
        ran = command("check", "contract.yaml", "--json")
    return [one["message"] for one in json.loads(ran.out)["findings"] if one["kind"] == kind]


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
        "4 test rows of class 'b', and an interval needs 5; give more rows of it"
    )
    accuracy = written.replace("average_precision", "accuracy")
    assert found(tmp_path, "undecidable", accuracy, counts) == []


def test_fewer_training_rows_than_two_leaves_need(tmp_path: Path) -> None:
    written = HEAD + SPLIT % ", folds: 5" + TREES
    (message,) = found(tmp_path, "unsplit_trees", written, (25, 25))
    assert message == (
        "the trees cannot have a split: each leaf needs 20 training rows (model.min_data_in_leaf), "
        "and there are 34 in the smallest fold, too few for two; lower it, or write model: "
        "{kind: linear}"
    )
    smaller = written.replace("boosting", "boosting, min_data_in_leaf: 17")
    assert found(tmp_path, "unsplit_trees", smaller, (25, 25)) == []
    assert found(tmp_path, "unsplit_trees", written.replace("boosting", "linear"), (25, 25)) == []
