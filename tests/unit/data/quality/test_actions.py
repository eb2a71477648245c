"""What a contract can do about faults: counted, fitted on training rows, other rows untouched."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.contract.sections.data.quality import Action, FindingKind, Quality
from trainwright.contract.sections.data.split import StratifiedSplit
from trainwright.contract.sections.data.table_data import Column, Features, TableData
from trainwright.core.errors import DataMistake
from trainwright.core.files import to_json
from trainwright.data.base import row_storage
from trainwright.data.base.cleaned_cells import Cleaning
from trainwright.data.base.inputs import PartName
from trainwright.data.columns.typed_rows import Limit, limited
from trainwright.data.prepare_table import prepare_fold, prepare_table
from trainwright.data.quality import actions
from trainwright.data.quality.actions import Acted, act
from trainwright.data.quality.copies import near_duplicates
from trainwright.data.quality.examined_data import examine
from trainwright.data.quality.row_faults import BY_ROW, faulty_rows
from trainwright.data.quality.run_checks import find_kind
from trainwright.data.read_table import read_table

ROWS = 400


def made(rows: int, seed: int) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    x = random.normal(0, 1, (rows, 3))
    labels = np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")
    return pl.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "label": labels})


def parts(train: pl.DataFrame) -> dict[PartName, pl.DataFrame]:
    return {"train": train, "validation": made(80, 1), "test": made(80, 2)}


def done(
    frames: dict[PartName, pl.DataFrame], actions: dict[FindingKind, Action], **columns: Column
) -> Acted:
    section = TableData(path="x.csv", quality=Quality(actions=actions), columns=columns)
    before = {part: frame.clone() for part, frame in frames.items()}
    # Positions in the file are not those in the part.
    acted = act(frames, np.arange(frames["train"].height) * 2, section)
    assert all(frames[part].equals(before[part]) for part in frames)
    return acted


def test_nothing_asked_is_nothing_done() -> None:
    frames = parts(made(ROWS, 0))
    acted = done(frames, {"exact_duplicates": "report"})
    assert acted.train.equals(frames["train"])
    assert acted.done == ()


def test_copies_go_and_so_do_training_rows_that_stand_elsewhere_too() -> None:
    frames = parts(made(ROWS, 0))
    train = frames["train"]
    frames["train"] = pl.concat([train, train[[4, 5]], frames["test"][[0]]])
    acted = done(frames, {"exact_duplicates": "drop"})
    assert acted.train.equals(train)
    (one,) = acted.done
    assert (one.count, one.rows) == (3, (800, 802, 804))


@pytest.mark.parametrize("action", ["drop", "fail"])
@pytest.mark.parametrize("kind", ["exact_duplicates", "near_duplicates", "not_unique"])
def test_different_rows_in_folds_are_no_copies(
    kind: FindingKind, action: Action, tmp_path: Path
) -> None:
    """With folds every row trains and is tested: it is no copy of itself."""
    frame = made(ROWS, 0).with_row_index("id")
    frame.write_parquet(tmp_path / "x.parquet")
    section = TableData(
        path="x.parquet",
        target="label",
        split=StratifiedSplit(kind="stratified", folds=3),
        features=Features(numeric="none", impute="median"),
        columns={"id": Column(unique=True, kind="numeric")},
        quality=Quality(actions={kind: action}),
    )
    asked = read_table(section, tmp_path)
    usual = section.model_copy(update={"quality": Quality()})
    for prepare in (
        lambda one: prepare_table(asked, one, "classification", 0),
        lambda one: prepare_fold(asked, one, "classification", 0, 1),
    ):
        prepared = prepare(section)
        assert prepared.done == ()
        assert prepared.train.rows.tolist() == prepare(usual).train.rows.tolist()


def test_near_copies_of_test_rows_go_from_training() -> None:
    frames = parts(made(ROWS, 0))
    near = frames["test"][[3]].with_columns(pl.col("a") + 1e-4)
    frames["train"] = pl.concat([frames["train"], near])
    acted = done(frames, {"near_duplicates": "drop"})
    assert (acted.places // 2).tolist() == list(range(ROWS))


@pytest.mark.parametrize("action", ["drop", "fail"])
def test_near_copies_among_too_many_rows_are_refused(
    action: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked for and is not done is a mistake; what nobody asked for is said."""
    frames = parts(made(ROWS, 0))
    for module in (actions, near_duplicates):
        monkeypatch.setattr(module, "MOST_ROWS", ROWS)
    with pytest.raises(DataMistake, match="too many rows for the near-duplicate check"):
        done(frames, {"near_duplicates": action})
    assert done(frames, {"near_duplicates": "report"}).done == ()
    (finding,) = near_duplicates.near_duplicates(examine(pl.concat(frames.values()), "label"))
    assert (finding.severity, finding.count) == ("info", 0)
    assert "no near-duplicate check: 560 rows" in finding.message


def test_rows_of_few_values_are_no_near_copies() -> None:
    random = np.random.default_rng(0)
    words = {name: random.choice(["x", "y", "z"], 300) for name in ("a", "b", "label")}
    few = pl.DataFrame(words)
    frames: dict[PartName, pl.DataFrame] = {
        "train": few[:200], "validation": few[200:250], "test": few[250:]
    }  # fmt: skip
    assert done(frames, {"near_duplicates": "drop"}).done == ()


def swapped() -> tuple[dict[PartName, pl.DataFrame], set[int]]:
    frames = parts(made(ROWS, 0))
    train = frames["train"]
    away = (train["a"] + train["b"]).abs().arg_sort(descending=True)[:12].to_list()
    labels = train["label"].to_list()
    for row in away:
        labels[row] = "no" if labels[row] == "yes" else "yes"
    frames["train"] = train.with_columns(label=pl.Series(labels))
    return frames, set(away)


def test_swapped_labels_are_given_back() -> None:
    """No more of them than the finding vouches for."""
    frames, planted = swapped()
    acted = done(frames, {"label_error": "relabel"})
    true = made(ROWS, 0)["label"]
    wrong = set((acted.train["label"] != true).arg_true().to_list())
    (one,) = acted.done
    assert (one.kind, one.action, one.columns) == ("label_error", "relabel", ("label",))
    assert {row // 2 for row in one.rows} == planted - wrong
    assert wrong <= planted
    assert len(wrong) <= len(planted) / 2


def test_swapped_labels_are_left_out() -> None:
    frames, planted = swapped()
    acted = done(frames, {"label_error": "drop"})
    gone = set(range(ROWS)).difference((acted.places // 2).tolist())
    assert gone <= planted
    assert len(gone) >= len(planted) / 2


@pytest.mark.parametrize("action", ["relabel", "drop", "fail"])
def test_labels_that_cannot_be_judged_stay(action: Action) -> None:
    frames = parts(made(ROWS, 0))
    random = np.random.default_rng(5)
    for part, frame in frames.items():
        labels = random.choice(["yes", "no", "maybe"], frame.height)
        frames[part] = frame.with_columns(label=pl.Series(labels))
    acted = done(frames, {"label_error": action})
    assert acted.train.equals(frames["train"])
    (one,) = acted.done
    assert (one.kind, one.action, one.count, one.rows) == ("label_error", action, 0, ())
    assert "no more than overlapping classes explain" in one.message


def test_wrong_numbers_are_left_out_and_never_relabelled() -> None:
    frames: dict[PartName, pl.DataFrame] = {
        part: frame.with_columns(label=10 * pl.col("a") + 3 * pl.col("b"))
        for part, frame in parts(made(ROWS, 0)).items()
    }
    wrong = pl.when(pl.int_range(pl.len()).is_in([7, 50])).then(500.0).otherwise("label")
    frames["train"] = frames["train"].with_columns(label=wrong)
    acted = done(frames, {"label_error": "drop"})
    gone = set(range(ROWS)).difference((acted.places // 2).tolist())
    assert gone
    assert gone <= {7, 50}
    with pytest.raises(DataMistake, match="a numeric target cannot be relabelled"):
        done(frames, {"label_error": "relabel"})


def test_outliers_are_capped_at_the_ends_of_the_other_training_rows() -> None:
    frames = parts(made(ROWS, 0))
    values = frames["train"]["a"].to_numpy().copy()
    others = np.delete(values, (7, 8))
    low, high = float(others.min()), float(others.max())
    values[7], values[8] = 5000.0, -5000.0
    frames["train"] = frames["train"].with_columns(a=pl.Series(values))
    frames["test"] = frames["test"].with_columns(
        a=pl.when(pl.int_range(pl.len()) == 3).then(-900.0).otherwise(pl.col("a"))
    )
    acted = done(frames, {"outliers": "cap"})
    (limit,) = acted.limits
    assert (limit.column, limit.low, limit.high, limit.beyond) == ("a", low, high, "cap")
    # The ends come from training rows, and what they do to other rows is said.
    assert "2 train, 0 validation, 1 test values" in acted.done[0].message


def test_only_the_side_that_has_a_fault_gets_an_end() -> None:
    """An honest validation row below all training rows is no fault that training shows."""
    frames = {
        part: frame.with_columns(pl.col("a").abs() + 10)
        for part, frame in parts(made(ROWS, 0)).items()
    }
    high = float(frames["train"]["a"][5:].to_numpy().max())
    frames["train"] = frames["train"].with_columns(
        a=pl.when(pl.int_range(pl.len()) < 5).then(999.0).otherwise("a")
    )
    lower = pl.when(pl.int_range(pl.len()) == 3).then(2.0).otherwise("a")
    frames["validation"] = frames["validation"].with_columns(a=lower)
    acted = done(frames, {"unlikely_values": "impute"})
    (limit,) = acted.limits
    assert (limit.low, limit.high) == (-math.inf, high)
    assert limited(frames["validation"], acted.limits)["a"][3] == 2.0
    assert limited(frames["train"], acted.limits)["a"].null_count() == 5
    assert f"missing above {high:g} in every row: 5 train, 0 validation" in acted.done[0].message
    assert Limit.from_json(json.loads(to_json(limit.to_json()))) == limit


def test_the_ranges_of_the_contract_become_missing_values() -> None:
    frames = parts(made(ROWS, 0))
    acted = done(frames, {"out_of_range": "impute"}, a=Column(range=(-2.0, 2.0)))
    (limit,) = acted.limits
    assert (limit.low, limit.high, limit.beyond) == (-2.0, 2.0, "impute")


def test_a_leak_goes_as_a_column() -> None:
    frames = {
        part: frame.with_columns(prize=(pl.col("label") == "yes").cast(pl.Float64))
        for part, frame in parts(made(ROWS, 0)).items()
    }
    acted = done(frames, {"leak": "drop"})
    assert acted.columns == {"prize"}
    assert acted.done[0].columns == ("prize",)


@pytest.mark.parametrize("part", ["train", "test"])
def test_what_is_to_fail_fails_wherever_it_stands(part: PartName) -> None:
    frames = parts(made(ROWS, 0))
    frames[part] = frames[part].with_columns(
        a=pl.when(pl.int_range(pl.len()) == 3).then(99.0).otherwise(pl.col("a"))
    )
    with pytest.raises(DataMistake, match=r"'a' is outside -9 to 9: 1 value,"):
        done(frames, {"out_of_range": "fail"}, a=Column(range=(-9.0, 9.0)))


def test_training_never_becomes_empty() -> None:
    frames = parts(made(ROWS, 0))
    none = {"a": Column(range=(90.0, 99.0))}
    with pytest.raises(DataMistake, match="no training row would remain"):
        done(frames, {"out_of_range": "drop"}, **none)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("missing", {"a": None}),
        ("unexpected_value", {"word": "Ulm"}),
        ("unlikely_values", {"positive": -1.0}),
    ],
)
def test_rows_with_a_fault_are_dropped(kind: FindingKind, values: dict[str, Any]) -> None:
    frames = {
        part: frame.with_columns(positive=pl.col("a").abs() + 1, word=pl.lit("Bern"))
        for part, frame in parts(made(ROWS, 0)).items()
    }
    for name, value in values.items():
        row = pl.int_range(pl.len()) == 6
        frames["train"] = frames["train"].with_columns(
            pl.when(row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        )
    acted = done(frames, {kind: "drop"}, word=Column(allowed=("Bern",)))
    assert set(range(ROWS)) - set((acted.places // 2).tolist()) == {6}


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_a_row_that_equals_one_held_out_row_and_is_nearly_another_leaves(order: list[int]) -> None:
    frames = parts(made(ROWS, 0))
    numbers = [name for name, kind in frames["train"].schema.items() if kind == pl.Float64]
    copy = frames["train"][-1]
    other = copy.with_columns(pl.col(numbers) + 1e-6)
    frames["validation"] = pl.concat([copy, other])[order]
    acted = done(frames, {"near_duplicates": "drop"})
    assert (ROWS - 1) * 2 not in acted.places.tolist()


ASKED = {
    "a": Column(range=(-1.0, 1.0), nullable=False),
    "b": Column(range=(-1.0, 1.0), nullable=False, kind="ignored"),
    "word": Column(allowed=("Bern", "12"), pattern="[A-Z].*"),
    "number": Column(range=(2.0, 7.0), allowed=("2", "3.0")),
    "text": Column(pattern=".*[13579] .*"),
}


@pytest.mark.parametrize("kind", BY_ROW)
def test_the_faults_of_single_rows_are_those_that_the_checks_find(
    kind: FindingKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_storage, "SLICE_ROWS", 70)
    random = np.random.default_rng(4)
    frame = made(ROWS, 0).with_columns(
        pl.Series("word", random.choice(["Bern", "bern", "Ulm", "12"], ROWS)),
        pl.Series("number", random.integers(0, 9, ROWS).astype(str)),
        pl.Series("text", [f"{at} is one of many words" for at in range(ROWS)]),
    )
    some = pl.int_range(pl.len()) % 11 == 3
    frame = frame.with_columns(
        pl.when(~some).then(pl.col(name)) for name in ("a", "b", "word", "number", "text")
    )
    data = examine(frame, "label", ASKED, Cleaning((), {}))
    expected = {row for one in find_kind(data, kind, ASKED) for row in one.rows}
    section = TableData(path="x.csv", columns=ASKED, target="label")
    for where in (row_storage.IN_MEMORY, row_storage.InFiles(tmp_path)):
        faulty = faulty_rows(frame, kind, section, frozenset({"b"}), where)
        assert np.flatnonzero(faulty).tolist() == sorted(expected)
    assert 0 < len(expected) < ROWS


def test_only_the_first_of_very_many_rows_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "MOST_LISTED", 5)
    frames = parts(made(ROWS, 0))
    acted = done(frames, {"out_of_range": "drop"}, a=Column(range=(-1.0, 1.0)))
    (one,) = acted.done
    gone = np.flatnonzero(frames["train"]["a"].abs().to_numpy() > 1) * 2
    assert one.rows == tuple(gone[:5].tolist())
    assert one.count == len(gone) > 5


def test_a_leak_that_went_has_no_missing_values_and_no_ends() -> None:
    """What an action took out is no feature for those behind it."""
    frames = {
        part: frame.with_columns(
            prize=pl.when(pl.int_range(pl.len()) != 3)
            .then(pl.col("label") == "yes")
            .cast(pl.Float64)
        )
        for part, frame in parts(made(ROWS, 0)).items()
    }
    prize = Column(range=(0.0, 0.5))
    wanted: dict[FindingKind, Action] = {"leak": "drop", "missing": "drop", "out_of_range": "cap"}
    acted = done(frames, wanted, prize=prize)
    assert acted.columns == {"prize"}
    assert [one.kind for one in acted.done] == ["leak"]
    assert acted.limits == ()
