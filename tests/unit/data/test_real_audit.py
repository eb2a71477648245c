"""The leakage audit of real tables: clean where the split is right, and telling where it is not."""

from __future__ import annotations

import pytest

from audited_tables import RANDOM, STRATIFIED, audited, worst
from real_data import real_data
from trainwright.core.files import Json

CLEAN: list[tuple[str, str, Json, tuple[str, ...]]] = [
    ("adult/adult_train.csv", "income", STRATIFIED, ()),
    ("telco-churn/Telco-Customer-Churn.csv", "Churn", STRATIFIED, ()),
    ("penguins/penguins.csv", "species", STRATIFIED, ()),
    ("california-housing/housing.csv", "median_house_value", RANDOM, ()),
    (
        "bike-sharing/hour.csv",
        "cnt",
        {"kind": "time", "column": "dteday"},
        ("casual", "registered"),
    ),
    ("etth1/ETTh1.csv", "OT", {"kind": "time", "column": "date"}, ()),
    ("insteval-ratings/InstEval.csv", "y", {"kind": "group", "column": "s"}, ()),
    (
        "parkinsons-telemonitoring/parkinsons_updrs.csv",
        "total_UPDRS",
        {"kind": "group", "column": "subject#"},
        ("motor_UPDRS",),
    ),
]

FAULTY: list[tuple[str, str, Json, tuple[str, ...], dict[str, str]]] = [
    (
        "bike-sharing/hour.csv",
        "cnt",
        RANDOM,
        (),
        {"tells the target": "leak", "future rows": "suspicious"},
    ),
    ("etth1/ETTh1.csv", "OT", RANDOM, (), {"future rows": "suspicious"}),
    (
        "parkinsons-telemonitoring/parkinsons_updrs.csv",
        "total_UPDRS",
        RANDOM,
        (),
        {
            "function of the target": "leak",
            "same groups": "suspicious",
            "tells the target": "suspicious",
        },
    ),
]


@pytest.mark.extended
@pytest.mark.real_data
@pytest.mark.parametrize("case", CLEAN, ids=lambda case: case[0])
def test_a_real_table_with_the_right_split_is_clean(
    case: tuple[str, str, Json, tuple[str, ...]],
) -> None:
    path, target, split, exclude = case
    folder, _, name = path.partition("/")
    found = audited(real_data(folder) / name, target, split, exclude=exclude)
    assert {one.verdict for one in found} == {"clean"}, [one.message for one in found]


@pytest.mark.extended
@pytest.mark.real_data
@pytest.mark.parametrize("case", FAULTY, ids=lambda case: case[0])
def test_what_a_real_table_with_the_wrong_split_hides_is_found(
    case: tuple[str, str, Json, tuple[str, ...], dict[str, str]],
) -> None:
    path, target, split, exclude, expected = case
    folder, _, name = path.partition("/")
    found = worst(audited(real_data(folder) / name, target, split, exclude=exclude))
    assert {test: one for test, one in found.items() if one != "clean"} == expected
