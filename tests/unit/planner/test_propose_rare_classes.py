"""Rare classes are tested often enough for their clause to be decided, or it is said beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from command import command, inside
from trainwright.contract.document import Contract
from trainwright.contract.reading.read_contract import read_contract
from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.data.split.fold_split import NEVER, cut_folds
from trainwright.planner.init import guess_split
from trainwright.planner.init.first_contract import propose_contract

RARE = StratifiedSplit(kind="stratified", rare="train", folds=5)


def rows(classes: Mapping[str, int], columns: int = 1) -> pl.DataFrame:
    random = np.random.default_rng(0)
    labels = np.repeat(list(classes), list(classes.values()))
    random.shuffle(labels)
    values = {f"x{at}": random.normal(size=len(labels)) for at in range(columns)}
    return pl.DataFrame({**values, "y": labels})


def proposed(folder: Path, frame: pl.DataFrame) -> tuple[Contract, str]:
    frame.write_csv(folder / "rows.csv")
    text = propose_contract(str(folder / "rows.csv"), "y", folder)
    (folder / "contract.yaml").write_text(text)
    return read_contract(folder / "contract.yaml").contract, text


def found(folder: Path) -> list[str]:
    """The messages of `check` on clauses that cannot be decided."""
    with inside(folder):
        ran = command("check", "contract.yaml", "--json")
    findings = json.loads(ran.out)["findings"]
    return [one["message"] for one in findings if one["kind"] == "undecidable"]


def test_a_rare_class_in_many_rows_gets_folds(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, rows({"a": 1988, "b": 12}))
    assert contract.data.split == StratifiedSplit(kind="stratified", folds=5)
    assert "12 rows of class 'b' are few, so each is tested once" in text
    assert found(tmp_path) == []


def test_classes_too_rare_for_folds_only_train(tmp_path: Path) -> None:
    frame = rows({"a": 600, "b": 400, "c": 8, "d": 2, "e": 1})
    contract, _ = proposed(tmp_path, frame)
    assert contract.data.split == RARE
    assert found(tmp_path) == []
    folds = cut_folds(frame, "y", RARE, 0)
    tested = folds.of_row != NEVER
    assert set(frame["y"].filter(pl.Series(~tested))) == {"d", "e"}
    assert all((folds.parts(number)[~tested] != 2).all() for number in range(5))


def test_what_folds_cannot_decide_either_is_said(tmp_path: Path) -> None:
    contract, text = proposed(tmp_path, rows({"a": 1997, "b": 3}))
    assert contract.data.split == StratifiedSplit(kind="stratified")
    assert "a clause on 3 rows of class 'b' cannot be decided" in text
    assert len(found(tmp_path)) == 1


def test_one_test_part_is_enough(tmp_path: Path) -> None:
    contract, _ = proposed(tmp_path, rows({"a": 2000, "b": 700}))
    assert contract.data.split == StratifiedSplit(kind="stratified")


def test_folds_cost_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guess_split, "_MOST_CELLS", 1000)
    contract, _ = proposed(tmp_path, rows({"a": 1988, "b": 12}))
    assert contract.data.split == StratifiedSplit(kind="stratified")
