from __future__ import annotations

import polars as pl
import pytest

from trainwright.contract.sections.metric import Slice
from trainwright.core.errors import Mistake
from trainwright.evaluation.evaluate import find_slices

FRAME = pl.DataFrame(
    {
        "age": [20.0, 70.0, None, 66.0],
        "sex": ["Male", "Female", "Male", None],
        "label": ["no", "yes", "no", "yes"],
    }
)


def _found(*slices: Slice) -> dict[str, list[int]]:
    return {one.name: one.rows.tolist() for one in find_slices(slices, FRAME)}


def test_each_value_of_a_column_is_a_slice_and_missing_too() -> None:
    assert _found(Slice(column="sex")) == {
        "sex=Female": [1],
        "sex=Male": [0, 2],
        "sex=missing": [3],
    }


def test_whole_numbers_are_shown_as_such() -> None:
    assert list(_found(Slice(column="age"))) == ["age=20", "age=66", "age=70", "age=missing"]


def test_a_condition_may_use_any_column_and_the_target() -> None:
    found = _found(
        Slice(where="age >= 65 AND sex = 'Female'"), Slice(where="label = 'yes'", name="positives")
    )
    assert found == {"age >= 65 AND sex = 'Female'": [1], "positives": [1, 3]}


def test_a_missing_value_is_in_neither_a_condition_nor_its_opposite() -> None:
    assert _found(Slice(where="age > 50"), Slice(where="NOT age > 50")) == {
        "age > 50": [1, 3],
        "NOT age > 50": [0],
    }


def test_a_slice_knows_its_place_in_the_contract() -> None:
    found = find_slices([Slice(where="age > 0"), Slice(column="label")], FRAME)
    assert [(one.name, one.number) for one in found] == [
        ("age > 0", 0),
        ("label=no", 1),
        ("label=yes", 1),
    ]


@pytest.mark.parametrize(
    ("section", "path", "words"),
    [
        (Slice(column="sxe"), "slices.0.column", "did you mean 'sex'?"),
        (Slice(where="agee > 3"), "slices.0.where", "did you mean 'age'?"),
        (Slice(where="age >> "), "slices.0.where", "cannot be computed"),
        (Slice(where="age > 'x'"), "slices.0.where", "cannot be computed"),
        (Slice(where="age + 1"), "slices.0.where", "not true or false"),
        (Slice(where="SUM(age) > 3"), "slices.0.where", "not true or false"),
        (Slice(where="read_csv('rows.csv')"), "slices.0.where", "cannot be computed"),
    ],
)
def test_what_cannot_be_answered_is_a_mistake(section: Slice, path: str, words: str) -> None:
    with pytest.raises(Mistake) as raised:
        find_slices([section], FRAME)
    assert raised.value.problems[0].path == path
    assert words in str(raised.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(Mistake) as raised:
        find_slices([Slice(column="sxe"), Slice(column="sex"), Slice(where="foo > 1")], FRAME)
    assert [one.path for one in raised.value.problems] == ["slices.0.column", "slices.2.where"]


def test_a_column_of_many_values_is_a_mistake() -> None:
    frame = pl.DataFrame({"id": list(range(101))})
    with pytest.raises(Mistake, match="too many values"):
        find_slices([Slice(column="id")], frame)
