"""The benchmark of planted faults counts rightly, and finds what it plants in a small set."""

from __future__ import annotations

from typing import get_args

import pytest

import quality
from qualities.faults import FAULTS
from qualities.sets import TARGETS
from real_data import real_data
from trainwright.contract.sections.data.quality import FindingKind


def test_precision_and_recall_are_of_the_rows() -> None:
    one = quality.score({1, 2, 3, 4}, {3, 4, 5})
    assert (one.precision, one.recall, one.f1) == (2 / 3, 1 / 2, 4 / 7)
    none = quality.score(set(), set())
    assert (none.precision, none.recall, none.f1) == (0.0, 0.0, 0.0)


def test_there_are_enough_faults_of_known_kinds() -> None:
    assert len(FAULTS) >= 30
    assert {fault.kind for fault in FAULTS} <= set(get_args(FindingKind))
    assert {fault.data for fault in FAULTS} <= set(TARGETS)
    swapped = {fault.name for fault in FAULTS if fault.kind == "label_error"}
    ways = ("swapped", "exchanged")
    assert swapped == {f"{share}% {way}" for share in (2, 5, 10) for way in ways}


@pytest.mark.extended
@pytest.mark.real_data
@pytest.mark.parametrize(
    "fault",
    [fault for fault in FAULTS if fault.data == "penguins" and fault.kind != "label_error"],
    ids=lambda fault: fault.name,
)
def test_what_is_planted_among_penguins_is_found(fault: quality.Fault) -> None:
    real_data("penguins")
    one, _, _ = quality.measure(fault, seed=1)
    assert one.planted >= 8
    assert (one.precision, one.recall) == (1.0, 1.0)


def test_the_tables_have_a_line_for_each_kind_and_each_set() -> None:
    one = quality.Score(4, 3, 2)
    fault = next(fault for fault in FAULTS if fault.kind == "label_error")
    assert "| `label_error` | 1 | 4 | 3 | 0.67 | 0.50 |" in quality.kinds_table([(fault, one)])
    assert "| adult | 2% | 0.667, 0.500, 0.571 |" in quality.labels_table([(fault, one, [one])])


def test_what_is_hardly_found_is_named() -> None:
    fault = next(fault for fault in FAULTS if fault.kind == "outliers")
    assert quality.missed_text([(fault, quality.Score(4, 4, 4))]) == "All were found."
    assert "recall 0.25" in quality.missed_text([(fault, quality.Score(4, 1, 1))])
